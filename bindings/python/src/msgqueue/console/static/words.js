/** Texts for people. */

/** Of each status: the word, its icon, and its colour. */
export const STATUSES = {
  // A warning, as the bar that counts them.
  queued: { label: "Queued", icon: "warning", colour: "orange" },
  sending: { label: "Sending…", icon: "arrow-up", colour: "blue" },
  sent: { label: "Sent", icon: "check", colour: "grey" },
  delivered: { label: "Delivered", icon: "check-double", colour: "grey" },
  read: { label: "Read", icon: "check-double", colour: "grey" },
  failed: { label: "Failed", icon: "alert", colour: "red" },
};

/** Every status, for lists of the whole history. */
export const ALL_STATUSES = Object.keys(STATUSES);

export const LINKS = {
  wifi: "Wi-Fi",
  cellular: "Cellular",
  ethernet: "Ethernet",
  other: "Connected",
  none: "No link",
};

const KINDS = { rate_limit: "rate limit", not_found: "not found" };

/**
 * @param {string} kind A kind of failure, as the protocol has it.
 * @returns {string}
 */
export const kindLabel = (kind) => KINDS[kind] ?? kind;

/**
 * @param {object} message A message with a failure.
 * @returns {string} Why it failed, and what failed before if it is offline now.
 */
export const failureSentence = ({ failure, failure_before: before }) =>
  before ? `${failure.sentence} Before that: ${before.sentence}` : failure.sentence;

const number = new Intl.NumberFormat("en");

/**
 * @param {number} value
 * @returns {string} "12,345"
 */
export const count = (value) => number.format(value);

/**
 * @param {number} value
 * @param {string} [noun]
 * @returns {string} "1 message", "5 messages"
 */
export const plural = (value, noun = "message") => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/**
 * @param {number} value
 * @returns {string} "512 B", "1.5 KB", "12 MB"
 */
export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/**
 * @param {object} message With its body.
 * @returns {boolean} Whether the body is text: UTF-8 without a null character, which no text has.
 */
export const isText = ({ body }) => typeof body === "string" && !body.includes("\0");

/**
 * @param {number} ms
 * @returns {string} "12 ms", "1.5 s", "3 min", "2 h", "4 d"
 */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${ms % 1000 && ms < 10_000 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/**
 * "Just now", "5m ago", "2h ago", "3d ago", then the local date. A time in the future, as after the clock was set
 * back, is "Just now".
 * @param {number} then Milliseconds since 1970.
 * @param {number} now
 * @returns {string}
 */
export function relativeTime(then, now) {
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return "Just now";
  if (minutes < 60) return `${minutes}m ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h ago`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / (24 * 60))}d ago`;
  return new Date(then).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/**
 * @param {number} ms
 * @returns {string} Date and time to the second, in the local time zone.
 */
export function exactTime(ms) {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/**
 * @param {number} ms
 * @param {number} now
 * @returns {string} A time as a person says it: "16:40", and with its date on another day.
 */
export function clockTime(ms, now = Date.now()) {
  const [then, today] = [new Date(ms), new Date(now)];
  return then.toDateString() === today.toDateString()
    ? then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/**
 * @param {string} name
 * @returns {string} The name of a conversation; the one without a name has one here.
 */
export const conversationName = (name) => (name === "" ? "(no name)" : name);

/**
 * @param {object} counts
 * @returns {number} Messages that are queued, being sent or failed.
 */
export const unsent = (counts) => counts.queued + counts.sending + counts.failed;

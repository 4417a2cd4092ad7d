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
 * @param {object} failure
 * @returns {string} "HTTP 422", "code 17" or, without a code, the kind.
 */
export function failureCode({ kind, code }) {
  if (!code) return kindLabel(kind);
  return code >= 400 && code < 600 ? `HTTP ${code}` : `code ${code}`;
}

/**
 * @param {object} message A message with a failure.
 * @param {number} [again] How many retries have failed again while the page is open.
 * @returns {string} "Still failing after 2 retries: HTTP 422. "; "" before the first retry.
 */
export const stillFailing = ({ failure }, again = 0) =>
  again > 0 ? `Still failing after ${again === 1 ? "a retry" : `${again} retries`}: ${failureCode(failure)}. ` : "";

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
 * @returns {string} "12 ms", "1.5 s", "3 min", "2 h", "1 h 30 min", "4 d"
 */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000 && ms % 1000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.round(minutes / (24 * 60))} d`;
}

/**
 * @param {number} then Milliseconds since 1970.
 * @param {number} now
 * @returns {string} "in 2 h", "now"
 */
export const timeUntil = (then, now) =>
  then - now < 1000 ? "now" : `in ${duration(Math.ceil((then - now) / 1000) * 1000)}`;

/** The last time that a date of the browser can have. */
const LAST_TIME = 8_640_000_000_000_000;

/**
 * @param {number} ms Milliseconds since 1970.
 * @returns {Date} The last possible date for a later time.
 */
export const dateOf = (ms) => new Date(Math.min(ms, LAST_TIME));

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
  return dateOf(then).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/**
 * @param {number} ms
 * @returns {string} Date and time to the second, in the local time zone.
 */
export function exactTime(ms) {
  return dateOf(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Characters that show nothing or change the direction of the text, as the command line has them. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|^\p{Zs}+|\p{Zs}+$/gu;
const NAMED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * @param {string} text A name from outside.
 * @returns {string} The same with codes, as \u202e, in place of what cannot be seen, and of spaces at the ends.
 */
export const visible = (text) => text.replace(UNSEEN, (part) => [...part].map(codeOf).join(""));

function codeOf(character) {
  const number = character.codePointAt(0);
  const digits = number.toString(16);
  if (NAMED[character]) return NAMED[character];
  if (number < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return number < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/**
 * @param {number} ms
 * @param {number} now
 * @returns {string} A time as a person says it: "16:40", and with its date on another day.
 */
export function clockTime(ms, now = Date.now()) {
  const [then, today] = [dateOf(ms), dateOf(now)];
  return then.toDateString() === today.toDateString()
    ? then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/**
 * @param {string} name
 * @returns {string} The name of a conversation or a sender; the one without a name has one here.
 */
export const conversationName = (name) => (name === "" ? "(no name)" : visible(name));

/**
 * @param {object} counts
 * @returns {number} Messages that are queued, being sent or failed.
 */
export const unsent = (counts) => counts.queued + counts.sending + counts.failed;

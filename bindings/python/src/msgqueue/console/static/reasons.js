/** Why a message waits or has failed, in one line. What counts down is computed again without the network. */

import { clockTime, kindLabel, plural, timeUntil, visible } from "./words.js";

/**
 * @param {object} message With its `explanation`, as a list with reasons has it.
 * @param {string} status What the page shows as its status.
 * @param {(id: string) => object|undefined} find Returns another message of the list, if it is loaded.
 * @returns {string}
 */
export function reasonOf(message, status, find) {
  if (status === "failed") return failed(message);
  if (status !== "queued" || !message.explanation) return attempts(message.attempts);
  return [waiting(message, find), lastError(message)].filter(Boolean).join(" · ");
}

/**
 * @param {object} message
 * @returns {boolean} Whether its line changes with the time.
 */
export const countsDown = ({ explanation }) => (explanation?.until_ms ?? 0) > 0;

function failed({ failure, failure_before: before, attempts: made, explanation }) {
  if (!failure) return attempts(made);
  const most = explanation?.retries ? explanation.retries + 1 : 0;
  const number = made > 1 || most > 1 ? `${plural(made, "attempt")}${most >= made ? ` of ${most}` : ""}` : "";
  const first = before ? `Before that: ${before.sentence}` : "";
  return [failure.sentence, first, code(failure), number, words(failure)].filter(Boolean).join(" · ");
}

/** "HTTP 503", "server 17", "timeout" */
const code = ({ kind, code: number }) =>
  number >= 100 && number < 600 ? `HTTP ${number}` : number ? `${kindLabel(kind)} ${number}` : kindLabel(kind);

/** The receiver's own words, where they say more than the code. */
const words = ({ code: number, text }) => (text && text !== `HTTP ${number}` ? `“${visible(text)}”` : "");

const attempts = (number) => (number > 0 ? plural(number, "attempt") : "");

/** The last error of a message that waits for its retry. */
function lastError({ failure, explanation }) {
  return failure && explanation.reason === "retrying" ? code(failure) : "";
}

function waiting({ explanation, retries_used: used }, find) {
  const { reason, until_ms: until, behind, text, retries } = explanation;
  const time = timeUntil(until, Date.now());
  switch (reason) {
    case "retrying":
      if (until === 0 || used === 0) return text;
      return `Retry ${used}${retries >= used ? ` of ${retries}` : ""} ${time}`;
    case "scheduled":
      return until === 0 ? text : `Scheduled for ${clockTime(until)}, ${time}`;
    case "behind":
    case "blocked": {
      const other = find(behind);
      if (!other) return text;
      const preview = visible(other.preview.slice(0, 40)) || "(empty)";
      return reason === "behind" ? `Behind “${preview}”` : `Blocked by “${preview}”, which failed`;
    }
    default:
      return text;
  }
}

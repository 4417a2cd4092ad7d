/** Badges: the status of a message, and numbers of messages. Colour is never the only sign. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { count, STATUSES } from "./words.js";

/** @returns {HTMLElement} An empty badge for `setBadge`. */
export const badge = () => h("span", { class: "badge" });

export function setBadge(element, status) {
  if (element.dataset.status === status) return;
  const { label, icon: name, colour } = STATUSES[status];
  element.dataset.status = status;
  element.className = `badge ${colour}`;
  fill(element, icon(name), label);
}

/** @returns {HTMLElement} The mark of a paused conversation. */
export const pausedBadge = () => h("span", { class: "badge grey" }, icon("pause"), "Paused");

/**
 * The numbers of a conversation or of the queue, without those that are zero.
 * @param {object} counts
 * @returns {HTMLElement[]}
 */
export function countBadges(counts) {
  const parts = [
    [counts.queued + counts.sending, "queued", "orange", "warning"],
    [counts.failed, "failed", "red", "alert"],
    [counts.unread, "unread", "blue", "eye"],
  ];
  return parts
    .filter(([number]) => number > 0)
    .map(([number, word, colour, name]) =>
      h("span", { class: `badge ${colour}` }, icon(name), `${count(number)} ${word}`),
    );
}

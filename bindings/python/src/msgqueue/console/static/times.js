/** Relative times that stay right while the page is open. Needs no network. */

import { h, setText } from "./dom.js";
import { dateOf, exactTime, relativeTime } from "./words.js";

const INTERVAL = 10_000;

/**
 * Returns an element that shows how long ago something was.
 * @param {number} ms Milliseconds since 1970.
 * @returns {HTMLElement}
 */
export function timeElement(ms) {
  const element = h("time");
  setTime(element, ms);
  return element;
}

/** Sets the time of an element of `timeElement`. */
export function setTime(element, ms) {
  if (element.dataset.ms !== String(ms)) {
    element.dataset.ms = String(ms);
    element.dateTime = dateOf(ms).toISOString();
    element.title = exactTime(ms);
  }
  setText(element, relativeTime(ms, Date.now()));
}

/** Computes all times of the page again, now and from time to time. */
export function keepTimesRight() {
  const compute = () => {
    const now = Date.now();
    for (const element of document.querySelectorAll("time[data-ms]")) {
      setText(element, relativeTime(Number(element.dataset.ms), now));
    }
  };
  setInterval(compute, INTERVAL);
  document.addEventListener("visibilitychange", compute);
}

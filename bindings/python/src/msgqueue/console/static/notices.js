/** Short messages of the page to the person, at its foot. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN_FOR = { good: 5_000, info: 8_000, bad: 12_000 };
const MOST = 4;
const ICONS = { good: "check-circle", info: "info", bad: "warning" };

export class Notices {
  /** @param {HTMLElement} region An element with `aria-live`. */
  constructor(region) {
    this.region = region;
  }

  /**
   * Shows a text for some seconds. The same text twice is shown once.
   * @param {string} text
   * @param {"good"|"info"|"bad"} [kind]
   */
  show(text, kind = "info") {
    for (const other of this.region.children) {
      if (other.dataset.text === text) other.remove();
    }
    const notice = h(
      "div",
      { class: `notice ${kind}`, "data-text": text },
      icon(ICONS[kind]),
      h("p", {}, text),
      h(
        "button",
        { class: "plain", type: "button", "aria-label": "Close this notice", onclick: () => notice.remove() },
        icon("close"),
      ),
    );
    this.region.append(notice);
    while (this.region.children.length > MOST) this.region.firstElementChild.remove();
    setTimeout(() => notice.remove(), SHOWN_FOR[kind]);
  }
}

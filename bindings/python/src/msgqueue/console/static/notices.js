/** Short messages of the page to the person, in a place of their own: they cover nothing. */

import { focusOn, h } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN_FOR = { good: 5_000, info: 8_000, bad: 12_000 };
const MOST = 3;
const ICONS = { good: "check-circle", info: "info", bad: "warning" };

export class Notices {
  /**
   * @param {HTMLElement} region An element with `aria-live`.
   * @param {import("./queue.js").Queue} queue
   */
  constructor(region, queue) {
    this.region = region;
    /** Of each notice in the page: whether it is still true, and whether it was, as far as the page knows. */
    this.shown = new Map();
    queue.addEventListener("state", () => this.check());
  }

  /**
   * Shows a text for some seconds. One that is about the same thing is replaced.
   * @param {string} text
   * @param {"good"|"info"|"bad"} [kind]
   * @param {object} [options]
   * @param {string} [options.about] What it is about.
   * @param {boolean} [options.stays] It stays until the person closes it, or another one replaces it.
   * @param {() => boolean} [options.isTrue] The notice goes when this is no longer true.
   */
  show(text, kind = "info", { about = text, stays = false, isTrue = () => true } = {}) {
    for (const other of this.shown.keys()) if (other.dataset.about === about) this.remove(other);
    const notice = h(
      "div",
      { class: `notice ${kind}`, "data-about": about },
      icon(ICONS[kind]),
      h("p", {}, text),
      h("button", { class: "plain", type: "button", "aria-label": "Close this notice", onclick: () => this.remove(notice) }, icon("close")),
    );
    // What the queue has answered may be newer than what the page knows: it goes when it was true and is no longer.
    this.shown.set(notice, { isTrue, wasTrue: isTrue() });
    this.region.append(notice);
    while (this.shown.size > MOST) this.remove(this.shown.keys().next().value);
    if (!stays) setTimeout(() => this.remove(notice), SHOWN_FOR[kind]);
  }

  remove(notice) {
    const hadFocus = notice.contains(document.activeElement);
    this.shown.delete(notice);
    notice.remove();
    if (hadFocus) focusOn(document.querySelector("dialog:modal .dialog-head button"));
  }

  check() {
    for (const [notice, state] of this.shown) {
      if (state.isTrue()) state.wasTrue = true;
      else if (state.wasTrue) this.remove(notice);
    }
  }
}

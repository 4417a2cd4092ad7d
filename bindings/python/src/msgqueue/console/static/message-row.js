/** A row of the queue: preview, time, conversation, badge, and what can be done. */

import { badge, setBadge } from "./badge.js";
import { ofEdit } from "./drafts.js";
import { h, newId, rowButton, setAttribute, setText } from "./dom.js";
import { setTime, timeElement } from "./times.js";
import { reasonOf } from "./reasons.js";
import { stillFailing } from "./words.js";

export class MessageRow {
  /**
   * @param {object} app Parts of the page.
   * @param {(message: object) => void} open
   * @param {(id: string) => object|undefined} find Returns another message of the list, if it is loaded.
   */
  constructor({ queue, actions, titles, selection = null }, open, find) {
    Object.assign(this, { queue, titles, drafts: actions.drafts, find, selection });
    this.message = null;
    const id = newId();
    this.preview = h("bdi", { class: "preview", dir: "auto", id });
    this.conversation = h("bdi", { class: "conversation", dir: "auto" });
    this.badge = badge();
    this.time = timeElement(0);
    this.detail = h("span", { class: "detail" });
    this.open = h("button", { class: "open", type: "button", "data-control": "open", onclick: () => open(this.message) }, this.preview);
    const control = (iconName, label, run) =>
      rowButton(iconName, label, run, { "data-control": label.toLowerCase().replace(" ", "-"), "aria-describedby": id });
    this.send = control("send", "Send now", () => actions.sendNow(this.message));
    this.retry = control("retry", "Retry", () => actions.retry(this.message));
    this.edit = control("pencil", "Edit", () => actions.edit(this.message));
    this.remove = control("bin", "Delete", () => actions.remove(this.message));
    const chosen = () => selection.set(this.message, this.choose.checked);
    const ofChoice = { type: "checkbox", class: "choose", "data-control": "choose", "aria-label": "Choose", "aria-describedby": id };
    this.choose = h("input", { ...ofChoice, hidden: true, onchange: chosen });
    this.element = h(
      "div",
      { class: "row", role: "listitem" },
      this.choose,
      h(
        "div",
        { class: "row-text" },
        this.open,
        h("div", { class: "row-line" }, h("div", { class: "row-facts" }, this.badge, this.conversation, this.time), this.detail),
      ),
      h("div", { class: "row-buttons" }, this.send, this.retry, this.edit, this.remove),
    );
  }

  /** @param {object} message */
  update(message) {
    if (message.id !== this.message?.id) delete this.element.dataset.left;
    this.message = message;
    const status = this.queue.statusOf(message);
    setText(this.preview, previewOf(message));
    this.titles.set(this.conversation, message.conversation);
    setBadge(this.badge, status);
    setTime(this.time, message.time_ms);
    const reason = reasonOf(message, status, this.find);
    const hasFailed = status === "failed" && message.failure;
    const again = hasFailed ? stillFailing(message, this.queue.failedAgain.get(message.id)) : "";
    setText(this.detail, `${again}${reason}`);
    setAttribute(this.detail, "title", this.detail.textContent || null);
    setAttribute(this.detail, "data-reason", status === "queued" ? (message.explanation?.reason ?? null) : null);
    setAttribute(this.element, "data-id", message.id);
    setAttribute(this.element, "data-status", status);
    this.choose.hidden = !this.selection?.isOn;
    this.choose.checked = this.selection?.chosen.has(message.id) ?? false;
    const isFree = status === "queued" || status === "failed";
    setText(this.edit.lastChild, this.drafts.get(ofEdit(message.id)) ? "Edit draft" : "Edit");
    this.show(
      [this.send, status === "queued" && this.queue.canSend && message.explanation?.reason !== "paused"],
      [this.retry, status === "failed"],
      [this.edit, isFree],
      [this.remove, isFree],
    );
  }

  /** Shows the controls that apply. The focus of one that goes waits on the row until it is back. */
  show(...controls) {
    const { activeElement: focused } = document;
    for (const [control, isShown] of controls) control.hidden = !isShown;
    const { dataset } = this.element;
    const left = controls.find(([control]) => control.dataset.control === dataset.left)?.[0];
    if (focused !== this.open) delete dataset.left;
    else if (left && !left.hidden) left.focus({ preventScroll: true });
    if (!focused?.hidden || !this.element.contains(focused)) return;
    this.open.focus({ preventScroll: true });
    dataset.left = focused.dataset.control;
  }
}

const encoder = new TextEncoder();

/** The preview, with a sign where the text goes on. */
function previewOf({ preview, body_size: size }) {
  if (preview === "") return size === 0 ? "(empty)" : "(no text)";
  return encoder.encode(preview).length < size ? `${preview}…` : preview;
}

/** The field in which a message is written. */

import { h, newId } from "./dom.js";
import { icon } from "./icons.js";

export class Compose {
  /**
   * @param {import("./actions.js").Actions} actions
   * @param {() => string} conversation
   * @param {(id: string) => void} added The message is in the queue.
   */
  constructor(actions, conversation, added) {
    Object.assign(this, { actions, conversation, added });
    this.isAdding = false;
    const id = newId();
    this.text = h("textarea", {
      id,
      rows: 1,
      dir: "auto",
      placeholder: "Message",
      "aria-keyshortcuts": "Enter",
      oninput: () => this.update(),
      onkeydown: (event) => this.submitByEnter(event),
    });
    this.button = h(
      "button",
      { type: "submit", class: "primary", "aria-label": "Queue message", title: "Queue message (Enter)" },
      icon("send"),
    );
    this.element = h(
      "form",
      { class: "compose", onsubmit: (event) => this.submit(event) },
      h("label", { class: "hidden-text", for: id }, "Message"),
      this.text,
      this.button,
    );
    this.update();
  }

  update() {
    this.button.disabled = this.isAdding || this.text.value.trim() === "";
  }

  submitByEnter(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.element.requestSubmit();
  }

  /** Adds the message; the field is cleared, unless the queue refuses the message. */
  async submit(event) {
    event.preventDefault();
    const body = this.text.value.trim();
    if (this.isAdding || body === "") return;
    this.isAdding = true;
    this.update();
    const id = await this.actions.enqueue(this.conversation(), body);
    this.isAdding = false;
    if (id !== null) {
      // What was typed meanwhile stays.
      if (this.text.value.trim() === body) this.text.value = "";
      this.added(id);
    }
    this.update();
  }
}

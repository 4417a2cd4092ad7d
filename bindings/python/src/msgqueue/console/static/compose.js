/** The field in which a message is written. */

import { h, newId } from "./dom.js";
import { icon } from "./icons.js";

export class Compose {
  /**
   * @param {import("./actions.js").Actions} actions
   * @param {() => string} conversation
   * @param {(id: string) => void} added The message is in the queue.
   * @param {string} draft The name under which what is typed is kept.
   */
  constructor(actions, conversation, added, draft) {
    Object.assign(this, { actions, conversation, added, draft });
    this.isAdding = false;
    const id = newId();
    this.text = h("textarea", {
      id,
      rows: 1,
      dir: "auto",
      placeholder: "Message",
      "aria-keyshortcuts": "Enter",
      oninput: () => this.typed(),
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
    this.read();
  }

  /** Shows the draft that is kept. */
  read() {
    this.text.value = this.actions.drafts.get(this.draft) ?? "";
    this.update();
  }

  typed() {
    this.actions.drafts.set(this.draft, this.text.value || null);
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
    const id = await this.actions.enqueue(this.conversation(), body, this.draft);
    this.isAdding = false;
    if (id !== null) {
      // What was typed meanwhile stays, also in another view of this conversation.
      const { drafts } = this.actions;
      if (drafts.get(this.draft)?.trim() === body) drafts.set(this.draft, null);
      if (this.text.value.trim() === body) this.text.value = "";
      this.added(id);
    }
    this.update();
  }
}

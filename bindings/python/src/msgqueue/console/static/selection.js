/** The rows that a person has chosen, and what can be done with them together. */

import { deleteChosen, exportMessages } from "./bulk.js";
import { button, focusOn, h, setHidden, setText } from "./dom.js";
import { plural } from "./words.js";

export class Selection {
  /**
   * @param {import("./actions.js").Actions} actions
   * @param {() => void} changed The rows must be drawn again.
   */
  constructor(actions, changed) {
    Object.assign(this, { actions, changed, isOn: false });
    /** By id. */
    this.chosen = new Map();
    this.begin = button("check", "Select", () => this.turn(true));
    this.number = h("strong", { role: "status" });
    this.retry = button("retry", "Retry", () => this.run((messages) => actions.retryChosen(messages)));
    this.remove = button("bin", "Delete", () => this.run((messages) => deleteChosen(actions, messages)));
    this.save = button("save", "Export", () => exportMessages(actions, { messages: this.messages }));
    const done = button("close", "Done", () => this.turn(false));
    this.element = h(
      "div",
      { class: "selection", role: "group", "aria-label": "Chosen messages", hidden: true },
      ...[this.number, this.retry, this.remove, this.save, done],
    );
    this.update();
  }

  get messages() {
    return [...this.chosen.values()];
  }

  turn(isOn) {
    this.isOn = isOn;
    this.chosen.clear();
    setHidden([this.element, !isOn], [this.begin, isOn]);
    focusOn(isOn ? this.element.querySelector("button:last-child") : this.begin);
    this.update();
  }

  set(message, isChosen) {
    if (isChosen) this.chosen.set(message.id, message);
    else this.chosen.delete(message.id);
    this.update();
  }

  /** Keeps what is known of the chosen ones current, and forgets those that are gone. */
  follow({ removed }, find) {
    for (const id of removed) this.chosen.delete(id);
    for (const id of this.chosen.keys()) this.chosen.set(id, find(id) ?? this.chosen.get(id));
    this.update();
  }

  /** Performs an action; unless the person did not agree, nothing is chosen afterwards. */
  async run(action) {
    if ((await action(this.messages)) === false) return;
    this.chosen.clear();
    this.update();
  }

  update() {
    const { messages } = this;
    setText(this.number, messages.length ? `${plural(messages.length)} chosen` : "Choose messages");
    this.retry.ariaDisabled = messages.some(({ status }) => status === "failed") ? null : "true";
    for (const control of [this.remove, this.save]) control.ariaDisabled = messages.length > 0 ? null : "true";
    this.changed();
  }
}

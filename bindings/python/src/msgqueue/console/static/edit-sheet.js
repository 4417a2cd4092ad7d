/** The sheet in which the text of a message is changed. */

import { fill, foreign, h, newId, setText } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { ofEdit } from "./drafts.js";
import { isGone, keepAsMessage } from "./kept-edits.js";
import { withLineEndsOf } from "./line-ends.js";
import { CallError } from "./server.js";
import { bytes, isText } from "./words.js";

/** The longest text that is edited here, in bytes: a field of the browser becomes slow with longer ones. */
const LONGEST = 1 << 20;
const GONE = "This message was sent or deleted meanwhile.";
const CHANGED = "This message was changed elsewhere. Its new text is shown below yours.";
const PROBLEMS = {
  BUSY: "This message is being sent right now. Try again when that has ended.",
  NOT_FOUND: GONE,
  TOO_LARGE: "The text is too long for this queue.",
  FULL: "The queue is full.",
};

/** Lets the person change a message, and saves it. */
export async function editMessage(actions, message) {
  const whole = await actions.server.call("get", { message: message.id });
  await new EditSheet(actions, whole).closed();
}

class EditSheet {
  constructor({ server, queue, drafts, notices }, message) {
    Object.assign(this, { server, queue, drafts, notices, id: message.id, conversation: message.conversation });
    /** The message from which the text was typed, and as it was read last: what the edit replaces. */
    this.origin = message;
    this.basis = message;
    /** The message as it was changed elsewhere, until the person has chosen; null: nothing to choose. */
    this.other = null;
    this.isLost = false;
    this.isSaving = false;
    drafts.open.add(message.id);
    this.build();
    const refusal = refusalOf(message);
    if (refusal) this.refuse(refusal);
    else this.begin();
  }

  build() {
    const id = newId();
    const note = `${id}-note`;
    this.text = h("textarea", { id, rows: 8, dir: "auto", "aria-describedby": note, oninput: () => this.typed() });
    this.label = h("label", { for: id }, "Text of the message");
    this.note = h("p", { class: "note", id: note, role: "status" });
    this.theirs = h("pre", { class: "body", tabindex: 0, "aria-label": "The text that was changed elsewhere" });
    this.conflict = h(
      "section",
      { class: "conflict", hidden: true },
      this.theirs,
      h(
        "div",
        { class: "sheet-buttons" },
        h("button", { type: "button", onclick: () => this.keepMine() }, "Keep mine"),
        h("button", { type: "button", onclick: () => this.takeTheirs() }, "Take theirs"),
      ),
    );
    this.save = h("button", { type: "submit", class: "primary" }, "Save");
    this.form = h(
      "form",
      { onsubmit: (event) => this.submit(event) },
      this.label,
      this.text,
      this.note,
      this.conflict,
      h("div", { class: "dialog-foot" }, h("button", { type: "button", onclick: () => this.dialog.close("cancel") }, "Cancel"), this.save),
    );
    this.dialog = openDialog({ title: "Edit message", kind: "edit", content: [this.form] });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
  }

  /** Shows the text, or what was typed when the sheet was open before. */
  begin() {
    this.show(this.basis);
    const draft = this.drafts.get(ofEdit(this.id));
    if (draft && draft.text !== this.plain) {
      this.text.value = draft.text;
      setText(this.note, "These are your changes, which are not saved. Cancel drops them.");
      if (draft.edited_ms !== this.basis.edited_ms) this.ask(this.basis);
    }
    this.validate();
    this.text.focus();
  }

  /** Follows the message until the sheet is closed. */
  async closed() {
    // The message may go, or be changed elsewhere, while the person writes.
    const watch = ({ detail: { everything, ids, removed } }) => {
      if (removed.has(this.id)) this.lose(GONE);
      else if (everything || ids.has(this.id)) this.look();
    };
    this.queue.addEventListener("messages", watch);
    const answer = await this.dialog.closed;
    this.queue.removeEventListener("messages", watch);
    this.leave(answer);
  }

  /** Keeps what was typed, unless it was saved or dropped by Cancel. */
  leave(answer) {
    this.drafts.open.delete(this.id);
    if (answer !== "" || !this.isChanged) this.drafts.set(ofEdit(this.id), null);
    else if (this.isLost) keepAsMessage(this, this.id, this.draft);
    else this.notices.show("Your changes are kept. “Edit draft” shows them again.", "info", { about: ofEdit(this.id) });
    this.queue.announceOne(this.id);
  }

  // ---------------------------------------------------------------- the text

  /** Whether the person has changed the text. */
  get isChanged() {
    return this.plain !== undefined && this.text.value !== this.plain;
  }

  show(message) {
    this.origin = message;
    this.basis = message;
    this.text.value = message.body;
    /** The text as the field has it. */
    this.plain = this.text.value;
  }

  typed() {
    this.keep();
    if (!this.isLost && !this.other) setText(this.note, "");
    this.validate();
  }

  /** What is kept of the edit. */
  get draft() {
    return { text: this.text.value, edited_ms: this.basis.edited_ms, conversation: this.conversation };
  }

  keep() {
    this.drafts.set(ofEdit(this.id), this.isChanged ? this.draft : null);
  }

  validate() {
    this.save.disabled = this.isLost || this.isSaving || this.other !== null || this.text.value.trim() === "";
  }

  lose(problem) {
    this.isLost = true;
    setText(this.note, problem);
    this.validate();
  }

  /** Shows why this message cannot be edited here. */
  refuse(refusal) {
    this.text.hidden = true;
    this.label.hidden = true;
    this.lose(refusal);
  }

  // ---------------------------------------------------------------- a change elsewhere

  async look() {
    try {
      this.accept(await this.server.call("get", { message: this.id }));
    } catch (problem) {
      if (problem instanceof CallError && problem.code === "NOT_FOUND") this.lose(GONE);
    }
  }

  /**
   * Takes what the queue has now.
   * @returns {boolean} Whether the edit still replaces what the person has seen.
   */
  accept(now) {
    if (this.isLost) return false;
    if (isGone(now)) {
      this.lose(GONE);
      return false;
    }
    if (this.other === null && contentOf(now) === contentOf(this.basis)) {
      this.basis = now;
      return true;
    }
    if (this.other === null && (!this.isChanged || now.body === this.text.value)) {
      this.takeTheirs(now);
      if (!this.isLost) setText(this.note, "This message was changed elsewhere. This is its new text.");
    } else if (this.other === null || contentOf(now) !== contentOf(this.other)) {
      this.ask(now);
    }
    return false;
  }

  ask(other) {
    this.other = other;
    fill(this.theirs, isText(other) ? foreign(other.body) : `${bytes(other.body_size)} that are not text`);
    this.conflict.hidden = false;
    setText(this.note, CHANGED);
    this.validate();
  }

  chosen() {
    this.other = null;
    this.conflict.hidden = true;
    setText(this.note, "");
    this.keep();
    this.validate();
    if (!this.isLost) this.text.focus();
  }

  keepMine() {
    this.basis = this.other;
    this.chosen();
  }

  takeTheirs(theirs = this.other) {
    const refusal = refusalOf(theirs);
    if (refusal) this.refuse(refusal);
    else this.show(theirs);
    this.chosen();
    if (refusal) setText(this.note, refusal);
  }

  // ---------------------------------------------------------------- saving

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.isSaving = true;
    this.validate();
    try {
      await this.saveNow();
    } catch (problem) {
      const code = problem instanceof CallError ? problem.code : "";
      if (code === "NOT_FOUND") this.lose(GONE);
      else setText(this.note, PROBLEMS[code] ?? problem.message);
    }
    this.isSaving = false;
    this.validate();
  }

  async saveNow() {
    const read = () => this.server.call("get", { message: this.id });
    if (!this.accept(await read())) return;
    try {
      const body = withLineEndsOf(this.origin.body, this.text.value);
      await edit(this.server, { message: this.id, body }, this.basis.edited_ms);
    } catch (problem) {
      if (!(problem instanceof CallError) || problem.code !== "CONFLICT") throw problem;
      // It was changed since the look before, or it is sent.
      if (this.accept(await read())) this.lose(GONE);
      return;
    }
    this.queue.announceOne(this.id);
    this.dialog.close("saved");
  }
}

/** Edits a message unless it was edited since. An owner of an earlier version knows no such condition. */
async function edit(server, fields, editedAt) {
  try {
    await server.call("edit", { ...fields, if_edited_ms: editedAt });
  } catch (problem) {
    if (!(problem instanceof CallError) || !problem.message.includes("unknown field if_edited_ms")) throw problem;
    await server.call("edit", fields);
  }
}

const contentOf = ({ body, body_base64: coded }) => body ?? `base64 ${coded}`;

/** Why a message cannot be edited here; "": it can. */
function refusalOf(message) {
  const size = bytes(message.body_size);
  if (!isText(message)) return `This message is not text and cannot be edited here. It has ${size}.`;
  if (message.body_size > LONGEST)
    return `This message has ${size}. Texts of more than ${bytes(LONGEST)} cannot be edited here.`;
  return "";
}

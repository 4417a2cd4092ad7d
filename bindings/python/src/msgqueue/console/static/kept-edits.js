/** Edits whose sheet is closed: when their message goes, the text is put into the message field of its conversation. */

import { ofEdit } from "./drafts.js";
import { oneByOne } from "./one-by-one.js";
import { CallError } from "./server.js";

/** Whether a message can no longer be edited, because it was sent. */
export const isGone = ({ status }) => !["queued", "failed", "sending"].includes(status);

export class KeptEdits {
  /** @param {import("./actions.js").Actions} actions */
  constructor({ server, queue, drafts, notices }) {
    Object.assign(this, { server, drafts, notices });
    /** The messages to look at; all of them when the page begins. */
    this.due = new Set(drafts.edits());
    this.look = oneByOne(() => this.lookAtDue());
    queue.addEventListener("messages", ({ detail: { everything, ids, removed } }) => {
      for (const id of drafts.edits()) if (everything || ids.has(id) || removed.has(id)) this.due.add(id);
      if (this.due.size > 0) this.look();
    });
    if (this.due.size > 0) this.look();
  }

  async lookAtDue() {
    for (const id of this.due) {
      this.due.delete(id);
      const isLost = await this.isLost(id);
      // A sheet that is open shows what happened, and keeps the text when it is closed.
      const kept = this.drafts.open.has(id) ? null : this.drafts.get(ofEdit(id));
      if (isLost && kept?.conversation !== undefined) keepAsMessage(this, id, kept);
    }
  }

  async isLost(id) {
    try {
      return isGone(await this.server.call("get", { message: id }));
    } catch (problem) {
      // Without an answer the message is looked at when the page hears of the queue again.
      return problem instanceof CallError && problem.code === "NOT_FOUND";
    }
  }
}

/** Moves the text of an edit whose message is gone to the message field of its conversation. */
export function keepAsMessage({ drafts, notices }, id, { conversation, text }) {
  drafts.append(conversation, text);
  drafts.set(ofEdit(id), null);
  notices.show("Your text is kept in the message field of the conversation.", "info", { about: ofEdit(id) });
}

/** Messages that are retried together: how many were sent, and how many have failed again. */

import { CallError } from "./server.js";

export class RetryRound {
  /**
   * Follows the messages from now on.
   * @param {import("./queue.js").Queue} queue
   * @param {Iterable<string>} ids
   * @param {(sent: number, failed: number) => void} tell Is called once, when each was sent, failed or is gone.
   */
  constructor(queue, ids, tell) {
    Object.assign(this, { queue, tell });
    this.left = new Set(ids);
    this.sent = 0;
    this.failed = 0;
    this.isTold = false;
    this.listeners = [["event:status", ({ detail: { id, to } }) => this.take(id, to)], ["messages", ({ detail }) => this.follow(detail)]];
    for (const [name, listener] of this.listeners) queue.addEventListener(name, listener);
  }

  /** Ends it, without telling anything. */
  end() {
    for (const [name, listener] of this.listeners) this.queue.removeEventListener(name, listener);
  }

  take(id, status) {
    if (!this.left.has(id) || status === "queued" || status === "sending") return;
    this.left.delete(id);
    if (status === "failed") this.failed += 1;
    else if (status !== "gone") this.sent += 1;
    if (this.left.size > 0) return;
    this.end();
    this.isTold = true;
    this.tell(this.sent, this.failed);
  }

  follow({ everything, removed }) {
    for (const id of removed) this.take(id, "gone");
    // Events were missed: what became of the rest is asked.
    if (everything) for (const id of this.left) this.ask(id);
  }

  async ask(id) {
    try {
      this.take(id, (await this.queue.server.call("get", { message: id })).status);
    } catch (problem) {
      if (problem instanceof CallError && problem.code === "NOT_FOUND") this.take(id, "gone");
    }
  }
}

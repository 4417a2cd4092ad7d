/** What a person can do with messages. Each asks the queue once, however often its button is pressed. */

import { each, sureNumber } from "./bulk.js";
import { isSure } from "./dialogs.js";
import { foreign, h } from "./dom.js";
import { idOf } from "./drafts.js";
import { editMessage } from "./edit-sheet.js";
import { RetryRound } from "./retry-round.js";
import { CallError, NoAccessError, UnreachableError } from "./server.js";
import { conversationName, failureCode, plural, unsent } from "./words.js";

const SENTENCES = {
  BUSY: "This message is being sent right now.",
  FULL: "The queue is full.",
  TOO_LARGE: "The message is too large.",
  NOT_FOUND: "This message is gone.",
  NO_TRANSPORT: "No program that sends has this store open. Nothing was sent.",
  CLOSED: "The queue is closed.",
  STORAGE: "The store cannot be written. Nothing was changed.",
  PERMISSION: "This store was opened for reading only.",
  TIMEOUT: "The program that has the store open did not answer in time.",
};

/** Errors after which a change may have been made. */
const UNCERTAIN = new Set(["CLOSED", "TIMEOUT", "UNKNOWN"]);

/** Messages of Retry all that are followed to their end. */
const FOLLOWED = 1_000;

export class Actions {
  constructor(server, queue, notices, drafts) {
    Object.assign(this, { server, queue, notices, drafts });
    /** How long notices about these are true. */
    this.whileOffline = { isTrue: () => queue.isOffline };
    this.whilePaused = { isTrue: () => queue.state?.paused || queue.state?.paused_conversations > 0 };
    /** What is called when the drains have ended that were asked for here and were answered as started. */
    this.drains = [];
    /** The report of a drain that has ended since the last one was asked for. */
    this.finished = null;
    /** The messages that Retry all has put back, until each has ended. */
    this.round = null;
    queue.addEventListener("event:drain_finished", (event) => this.drainFinished(event.detail.report));
    queue.addEventListener("still-failing", ({ detail: { id, failure } }) =>
      notices.show(`Still failing: ${failureCode(failure)}.`, "bad", { about: `retry ${id}` }),
    );
    queue.addEventListener("event:closed", () => (this.drains = []));
  }

  /** Runs an action unless the same one is running, and shows why it failed. */
  async once(key, action) {
    const { running } = this.queue;
    if (running.has(key)) return;
    running.add(key);
    this.queue.changed();
    try {
      await action();
    } catch (problem) {
      this.report(problem);
    } finally {
      running.delete(key);
      this.queue.changed();
    }
  }

  /** @param {Error} problem */
  report(problem) {
    const { queue } = this;
    const isOfConnection =
      problem instanceof UnreachableError || problem instanceof NoAccessError || problem.code === "CLOSED";
    if (isOfConnection) queue.note(problem);
    const { connection } = queue;
    this.notices.show(sentence(problem), "bad", { isTrue: () => !isOfConnection || queue.connection === connection });
  }

  // ---------------------------------------------------------------- the queue, or one conversation

  /**
   * @param {string|null} conversation
   * @param {boolean} [withFailed] What failed is sent, too.
   * @param {(report: object) => void} [ended] Is given the report when the drain has ended.
   */
  sendAll(conversation, withFailed = false, ended = () => {}) {
    return this.once("drain", async () => {
      this.finished = null;
      const fields = withFailed ? { ...scoped(conversation), include_failed: true } : scoped(conversation);
      const report = await this.server.call("drain", fields);
      // The event of one that goes on is still to come, or came before the answer.
      const end = report.stop === "started" ? this.finished : report;
      if (end) this.drainEnded(end, ended);
      else this.drains.push(ended);
      if (report.stop !== "started") await this.queue.refresh();
    });
  }

  drainFinished(report) {
    const ended = this.drains.shift();
    if (ended) this.drainEnded(report, ended);
    else this.finished = report;
  }

  drainEnded(report, ended) {
    this.showReport(report);
    ended(report);
  }

  showReport(report) {
    const parts = [];
    if (report.sent) parts.push(`${plural(report.sent)} sent.`);
    if (report.failed) parts.push(`${plural(report.failed)} failed.`);
    if (report.discarded) parts.push(`${plural(report.discarded)} discarded.`);
    if (report.stop === "offline") {
      this.notices.show(
        parts.length ? `You're offline. ${parts.join(" ")}` : "You're offline. Nothing was sent.",
        "info",
        this.whileOffline,
      );
    } else if (report.stop === "paused") {
      this.notices.show(["Sending is paused.", ...parts].join(" "), "info", this.whilePaused);
    } else if (parts.length) {
      this.notices.show(parts.join(" "), report.failed ? "bad" : "good", { about: "drain", stays: true });
    } else {
      this.notices.show(report.remaining ? `Nothing is due. ${plural(report.remaining)} queued.` : "Nothing is queued.", "info");
    }
  }

  /**
   * @param {string|null} conversation
   * @param {{kind?: string, code?: number}} [group] Only what has failed so.
   */
  retryAll(conversation, group = {}) {
    return this.once("retry_all", async () => {
      const fields = { ...scoped(conversation), ...group };
      const failed = await this.server.call("list", { ...fields, statuses: ["failed"], limit: FOLLOWED });
      await this.putBack(failed.messages, failed.next !== null, async () => (await this.server.call("retry_all", fields)).count);
    });
  }

  /** @param {object[]} messages The failed ones of them are retried. */
  retryChosen(messages) {
    return this.once("retry_all", async () => {
      const failed = messages.filter(({ status }) => status === "failed");
      const retry = ({ id }) => this.server.call("retry", { message: id });
      await this.putBack(failed, false, async () => (await each(failed, retry)).length);
    });
  }

  /** Puts failed messages back into the queue by `retry`, which returns their number, and tells what becomes of them. */
  async putBack(messages, hasMore, retry) {
    this.round?.end();
    const ids = messages.map(({ id }) => id);
    this.round = new RetryRound(this.queue, ids, (sent, again) => this.showRound(sent, again));
    // Of more messages than are followed only the number is told.
    if (hasMore) this.round.end();
    const count = await retry();
    if (count && !this.round.isTold) this.notices.show(`${plural(count)} put back into the queue.`, "good", { about: "retry all" });
    else if (!count && this.queue.isOffline)
      this.notices.show("No internet connection. Nothing was retried.", "info", this.whileOffline);
    else if (!count) this.notices.show("Nothing has failed.", "info");
  }

  showRound(sent, again) {
    const parts = [sent > 0 && `${plural(sent)} sent.`, again > 0 && `${plural(again)} failed again.`];
    const text = parts.filter(Boolean).join(" ");
    if (text) this.notices.show(text, again ? "bad" : "good", { about: "retry all", stays: true });
  }

  /** @param {string|null} conversation */
  pause(conversation) {
    return this.once("pause", async () => {
      await this.server.call("pause", scoped(conversation));
      await this.queue.refresh();
    });
  }

  /** @param {string|null} conversation */
  resume(conversation) {
    return this.once("resume", async () => {
      await this.server.call("resume", scoped(conversation));
      await this.queue.refresh();
    });
  }

  /** Drops the unsent messages of a conversation, after a question. */
  async clear(conversation, count) {
    const name = () => foreign(conversationName(conversation), "name");
    const question = (number) =>
      isSure("Delete unsent messages?", h("p", {}, `${plural(number)} in `, name(), " will be deleted. What was sent stays."));
    const recount = async () => unsent(await this.server.call("counts", { conversation }));
    await this.once("clear", async () => {
      const number = await sureNumber(count, question, recount);
      if (number === null) return;
      await this.server.call("clear", { conversation });
      this.notices.show(`${plural(number)} deleted.`, "good");
    });
  }

  // ---------------------------------------------------------------- one message

  /** @param {object} message */
  sendNow(message) {
    return this.once(`send:${message.id}`, async () => {
      if ((await this.isDone("send_now", message)) && this.queue.isOffline) {
        this.notices.show("No internet connection. The message stays queued.", "info", this.whileOffline);
      }
    });
  }

  /** Retries a failed message. Until it is sent or has failed again, further clicks do nothing. */
  async retry(message) {
    if (this.queue.retrying.has(message.id)) return;
    this.queue.beginRetry(message.id);
    const { isOffline } = this.queue;
    try {
      await this.server.call("retry", { message: message.id });
      if (isOffline) this.showOfflineRetry(message.id);
    } catch (problem) {
      this.queue.dropRetry(message.id);
      if (problem instanceof CallError && problem.code === "BUSY") return;
      if (problem instanceof CallError && problem.code === "CONFLICT")
        this.notices.show("This message is no longer failed.", "info");
      else this.report(problem);
      this.queue.announceOne(message.id);
    }
  }

  async showOfflineRetry(id) {
    const message = await this.server.call("get", { message: id });
    this.queue.dropRetry(id);
    this.notices.show(
      message.status === "failed"
        ? message.failure.sentence
        : "You're offline. The message will send when connected.",
      "info",
      this.whileOffline,
    );
  }

  /**
   * Deletes a message, after a question. One that is gone already counts as deleted.
   * @param {object} message
   * @returns {Promise<boolean>} Whether it is gone.
   */
  async remove(message) {
    const quote = h("blockquote", {}, foreign(message.preview || "(empty)"));
    return (await isSure("Delete this message?", quote, "It will be deleted for good.")) && this.removeNow(message);
  }

  /**
   * Deletes a message without a question.
   * @param {object} message
   * @returns {Promise<boolean>}
   */
  async removeNow(message) {
    let isGone = false;
    await this.once(`delete:${message.id}`, async () => {
      try {
        await this.server.call("delete", { message: message.id });
      } catch (problem) {
        if (!(problem instanceof CallError) || problem.code !== "NOT_FOUND") throw problem;
      }
      isGone = true;
      this.queue.announce({ everything: false, ids: new Set(), removed: new Set([message.id]) });
    });
    return isGone;
  }

  /** @param {object} message */
  edit(message) {
    return this.once(`edit:${message.id}`, () => editMessage(this, message));
  }

  /**
   * Adds a message to the queue. It keeps its id until it is there, so that it is not there twice when an answer was lost.
   * @param {string} conversation
   * @param {string} body
   * @param {string} draft The name of its draft.
   * @returns {Promise<string|null>} Its id, or null if it was refused.
   */
  async enqueue(conversation, body, draft) {
    const kept = this.drafts.get(idOf(draft));
    const isSame = kept?.conversation === conversation && kept.body === body;
    const message = isSame ? kept.message : crypto.randomUUID();
    this.drafts.set(idOf(draft), { message, conversation, body });
    try {
      await this.server.call("enqueue", { message, conversation, body });
    } catch (problem) {
      if (problem.code !== "DUPLICATE") {
        const isKnown = problem instanceof CallError && !UNCERTAIN.has(problem.code);
        if (isKnown && !isSame) this.drafts.set(idOf(draft), null);
        const text = isKnown
          ? `Failed to queue message: ${sentence(problem)}`
          : `It is not known whether the message was queued: ${sentence(problem)} Queue it again: it will not be there twice.`;
        this.notices.show(text, "bad", { about: draft });
        return null;
      }
    }
    this.drafts.set(idOf(draft), null);
    return message;
  }

  /** Performs a call on a message; a message that is gone, or changed meanwhile, is said and no error. */
  async isDone(call, message) {
    try {
      await this.server.call(call, { message: message.id });
      return true;
    } catch (problem) {
      if (!(problem instanceof CallError)) throw problem;
      if (problem.code === "CONFLICT" && /paused/.test(problem.message))
        this.notices.show("Sending is paused.", "info", this.whilePaused);
      else if (problem.code === "CONFLICT")
        this.notices.show("This message was sent or changed meanwhile.", "info");
      else if (problem.code === "NOT_FOUND" || problem.code === "BUSY") this.notices.show(sentence(problem), "info");
      else this.report(problem);
      this.queue.announceOne(message.id);
      return false;
    }
  }
}

/**
 * @param {Error} problem
 * @returns {string} What to tell a person.
 */
export function sentence(problem) {
  if (!(problem instanceof CallError)) return problem.message;
  return SENTENCES[problem.code] ?? problem.message;
}

const scoped = (conversation) => (conversation === null ? {} : { conversation });

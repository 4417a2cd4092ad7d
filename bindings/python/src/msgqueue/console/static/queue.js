/** The queue as the page knows it: its state and counts, and what changes. */

import { oneByOne } from "./one-by-one.js";
import { CallError, NoAccessError, UnreachableError } from "./server.js";

/** Seconds after which a retry that no event reported has ended anyway, in milliseconds. */
const LONGEST_RETRY = 15_000;

/** Reasons of the queue for which nothing can go now, whoever asks. */
const IDLE = new Set(["paused", "scheduled", "metered", "no_transport", "storage"]);

/**
 * Events: "state" (anything below changed), "messages" (`detail`: a Change), "still-failing" (a
 * retry has failed again; `detail`: the event), and those of the queue as "event:KIND".
 *
 * @typedef {object} Change Which messages changed.
 * @property {boolean} everything Too many to name, or some were missed: list again.
 * @property {Set<string>} ids
 * @property {Set<string>} removed
 */
export class Queue extends EventTarget {
  /** @param {import("./server.js").Server} server */
  constructor(server) {
    super();
    this.server = server;
    /** @type {"connecting"|"open"|"closed"|"unreachable"|"no-access"} */
    this.connection = "connecting";
    this.state = null;
    this.counts = null;
    /** The conversation in view, or null: its counts, banner and title, and whether it is paused (null: unknown). */
    this.scope = { conversation: null, counts: null, banner: "", title: null, paused: null };
    /** Messages whose retry was asked for and has not ended, with the time of the request. */
    this.retrying = new Map();
    /** How many retries of a message have failed again while the page is open. */
    this.failedAgain = new Map();
    /** What was asked for and is not answered yet: a second click does nothing. */
    this.running = new Set();
    /** Reads state, counts and banner again. */
    this.refresh = oneByOne(() => this.read());
  }

  /** @returns {boolean} */
  get isOffline() {
    return this.state?.connectivity === "offline";
  }

  /** Whether the program that has the store open sends messages. Without one only what needs no sending can be done. */
  get canSend() {
    return this.state?.has_transport === true;
  }

  /** Whether Send All would send something now, or at least when the queue is online. */
  get canSendAll() {
    return this.canSend && !IDLE.has(this.state.reason) && !this.state.paused;
  }

  /** Sets the conversation in view; null: the queue as a whole. */
  setScope(conversation) {
    if (this.scope.conversation === conversation && this.scope.counts) return;
    this.scope = { conversation, counts: null, banner: "", title: null, paused: null };
    this.refresh();
  }

  async read() {
    try {
      await this.readOnce();
    } catch (problem) {
      this.note(problem);
    }
  }

  async readOnce() {
    const { conversation } = this.scope;
    const inScope = conversation === null ? {} : { conversation };
    const [state, counts, scoped, banner, found] = await Promise.all([
      this.server.call("state"),
      this.server.call("counts"),
      conversation === null ? null : this.server.call("counts", inScope),
      this.server.call("banner", inScope),
      conversation === null ? null : this.find(conversation),
    ]);
    [this.state, this.counts] = [state, counts];
    if (this.scope.conversation === conversation) {
      const { title = null, paused = null } = found ?? {};
      this.scope = { conversation, counts: scoped ?? counts, banner: banner.text, title, paused };
    }
    if (this.connection !== "open") this.connection = "open";
    this.changed();
  }

  /** Returns a conversation, or null if it has no messages. */
  async find(conversation) {
    try {
      return await this.server.call("conversation", { conversation });
    } catch (problem) {
      if (problem instanceof CallError && problem.code === "NOT_FOUND") return null;
      throw problem;
    }
  }

  /** Takes a batch of events. */
  receive(events) {
    const change = { everything: false, ids: new Set(), removed: new Set() };
    for (const event of events) {
      this.take(event, change);
      this.dispatchEvent(new CustomEvent(`event:${event.event}`, { detail: event }));
    }
    if (this.connection === "closed") {
      this.changed();
      return;
    }
    this.refresh();
    // A title, and what was pruned from the history, have no event but that of the counts.
    const isNamed = change.everything || change.ids.size > 0 || change.removed.size > 0;
    if (!isNamed && events.some(({ event }) => event === "summary")) change.everything = true;
    if (change.everything || change.ids.size || change.removed.size) this.announce(change);
  }

  take(event, change) {
    switch (event.event) {
      case "closed":
        this.connection = "closed";
        this.retrying.clear();
        break;
      case "opened":
      case "resync":
        this.connection = "open";
        this.retrying.clear();
        change.everything = true;
        break;
      case "status":
        change.ids.add(event.id);
        this.endRetry(event);
        break;
      case "edited":
        change.ids.add(event.id);
        break;
      case "deleted":
      case "discarded":
      case "replaced":
        if (event.id === null) change.everything = true;
        else change.removed.add(event.id);
        this.retrying.delete(event.id);
        break;
    }
  }

  /** @param {Change} change */
  announce(change) {
    this.dispatchEvent(new CustomEvent("messages", { detail: change }));
  }

  /** Tells that one message was changed by this page. */
  announceOne(id) {
    this.announce({ everything: false, ids: new Set([id]), removed: new Set() });
  }

  changed() {
    this.dispatchEvent(new CustomEvent("state"));
  }

  /** Notes what an error says about the connection. */
  note(problem) {
    if (problem instanceof NoAccessError) this.connection = "no-access";
    else if (problem instanceof UnreachableError) this.connection = "unreachable";
    else if (problem instanceof CallError && problem.code === "CLOSED") this.connection = "closed";
    else if (!(problem instanceof CallError)) throw problem;
    this.changed();
  }

  // ---------------------------------------------------------------- retries

  /** @param {string} id */
  beginRetry(id) {
    const began = Date.now();
    this.retrying.set(id, began);
    setTimeout(() => {
      if (this.retrying.get(id) === began) this.dropRetry(id);
    }, LONGEST_RETRY);
    this.announceOne(id);
  }

  /** @param {string} id */
  dropRetry(id) {
    if (this.retrying.delete(id)) this.announceOne(id);
  }

  endRetry(event) {
    const began = this.retrying.get(event.id);
    // An event from before the click, which arrives after it, does not end the retry.
    if (began === undefined || event.to === "sending" || event.at_ms < began) return;
    this.retrying.delete(event.id);
    if (event.to !== "failed") this.failedAgain.delete(event.id);
    else if (event.failure && event.failure.kind !== "offline") {
      this.failedAgain.set(event.id, (this.failedAgain.get(event.id) ?? 0) + 1);
      this.dispatchEvent(new CustomEvent("still-failing", { detail: event }));
    }
  }

  /**
   * The status to show for a message.
   * @param {object} message
   * @returns {string}
   */
  statusOf(message) {
    return this.retrying.has(message.id) ? "sending" : message.status;
  }
}

/** What the whole queue waits for and what it has failed with, as the library counts it. */

import { oneByOne } from "./one-by-one.js";
import { clockTime, count, plural, timeUntil } from "./words.js";

/** The shortest time between two readings, in milliseconds. */
const INTERVAL = 1_000;
/** Groups of failures that are shown. */
const GROUPS = 50;
/** Reasons of the queue that the counts say better, and those that are said elsewhere. */
const COUNTED = new Set(["paused", "scheduled", "retrying"]);
const SAID = new Set(["none", "no_transport", "storage"]);

export class Survey {
  constructor({ server, queue, titles }, changed) {
    Object.assign(this, { server, queue, titles, changed });
    this.waiting = null;
    this.groups = [];
    /** The only paused conversation; null: none or several. */
    this.pausedIn = null;
    this.timer = 0;
    this.readAt = 0;
    this.read = oneByOne(() => this.readOnce());
    this.follow();
  }

  end() {
    clearTimeout(this.timer);
    this.isEnded = true;
  }

  /** Reads again, but not more often than a person can follow. */
  follow() {
    if (this.isEnded) return;
    const wait = Math.max(INTERVAL - (Date.now() - this.readAt), 0);
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.read();
    }, wait);
  }

  async readOnce() {
    this.readAt = Date.now();
    try {
      const [waiting, { groups }] = await Promise.all([this.server.call("waiting"), this.server.call("failures", { limit: GROUPS })]);
      const isOne = waiting.paused > 0 && this.queue.state?.paused_conversations === 1;
      const { messages } = isOne ? await this.server.call("list", { waiting_for: "paused", limit: 1 }) : { messages: [] };
      Object.assign(this, { waiting, groups, pausedIn: messages[0]?.conversation ?? null });
      if (!this.isEnded) this.changed();
    } catch (problem) {
      this.queue.note(problem);
    }
  }

  /**
   * What is true of the whole, in sentences.
   * @param {object} counts
   * @param {string|null} conversation
   * @returns {(string|Node)[]}
   */
  headline(counts, conversation) {
    const { state, isOffline, scope } = this.queue;
    const tail = isOffline ? (state.offline_reason ?? "") : SAID.has(state.reason) || counts.queued === 0 ? "" : state.text;
    // A pause of the queue is in the bar.
    if (state.paused) return isOffline ? [tail] : [];
    if (conversation !== null) return [scope.paused && counts.queued ? `${sentence(counts.queued, "paused", false)}.` : tail];
    const parts = this.waiting ? this.parts(this.waiting, state) : [];
    if (parts.length > 0 && COUNTED.has(state.reason)) return parts;
    return tail && parts.length > 0 ? [...parts, " ", tail] : [...parts, tail];
  }

  parts({ paused, scheduled, retrying, next_scheduled_ms: start, next_retry_ms: retry }, { paused_conversations: conversations }) {
    const parts = [];
    const say = (number, what, ...more) => {
      if (number > 0) parts.push(`${parts.length ? " " : ""}${sentence(number, what, parts.length > 0)}`, ...more, ".");
    };
    if (this.pausedIn !== null) say(paused, "paused in ", this.titles.element(this.pausedIn, "name"));
    else say(paused, conversations > 1 ? `paused in ${count(conversations)} conversations` : "paused");
    say(scheduled, scheduled === 1 ? `scheduled for ${clockTime(start)}` : `scheduled, the first for ${clockTime(start)}`);
    const time = timeUntil(retry, Date.now());
    say(retrying, retrying === 1 ? `retried ${time}` : `retried, the first ${time}`);
    return parts;
  }
}

const sentence = (number, what, isShort) => `${isShort ? count(number) : plural(number)} ${number === 1 ? "is" : "are"} ${what}`;

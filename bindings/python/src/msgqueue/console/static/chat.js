/**
 * One conversation: its messages, oldest first, and a field to write.
 *
 * One contiguous part of the messages is kept, around those in view. It grows at both ends while the person scrolls,
 * and at its end with new messages, and loses what is far from the view.
 */

import { Bubble } from "./bubble.js";
import { Compose } from "./compose.js";
import { toConversation } from "./drafts.js";
import { button, focusOn, h, setHidden, setText } from "./dom.js";
import { icon } from "./icons.js";
import { oneByOne } from "./one-by-one.js";
import { CallError } from "./server.js";
import { queueLink } from "./router.js";
import { ALL_STATUSES, conversationName, plural, unsent } from "./words.js";

const PAGE = 50;
/** Messages that are kept. */
const MOST = 400;
/** Messages that are read one by one after a change; with more of them a page is read. */
const FEW = 10;
/** Queued messages of which the reason is asked. */
const EXPLAINED = 20;
/** Distance from the end at which the view follows new messages, in pixels. */
const NEAR = 80;
/** Distance from an end of the messages that are kept, at which more of them are read, in pixels. */
const SOON = 400;

export class Chat {
  constructor(app, conversation) {
    Object.assign(this, app, { app, conversation });
    /** Sorted by time. */
    this.messages = [];
    this.bubbles = new Map();
    this.explanations = new Map();
    /** Whether there are messages before, and behind, those that are kept. */
    this.hasEarlier = false;
    this.hasLater = false;
    /** More was asked for at these ends. */
    this.wantsEarlier = false;
    this.wantsLater = false;
    /** What changed and is not read yet. */
    this.pending = null;
    this.isEnded = false;
    this.work = oneByOne(() => this.readAll());
    this.isPaused = false;
    this.build();
    this.listeners = [
      ["messages", (event) => this.follow(event.detail)],
      ["state", () => this.updateHead()],
      ["event:paused", (event) => this.notePause(event.detail)],
      ["event:connectivity", () => this.follow({ everything: true })],
    ];
    for (const [name, listener] of this.listeners) this.queue.addEventListener(name, listener);
    this.readDraft = () => this.compose.read();
    this.actions.drafts.addEventListener("appended", this.readDraft);
    this.updateHead();
    this.follow({ everything: true });
  }

  build() {
    const { actions, conversation } = this;
    this.summary = h("p", { class: "reason" });
    this.sendAll = button("send", "Send All", () => actions.sendAll(conversation), { class: "orange", hidden: true });
    this.retryAll = button("retry", "Retry all", () => actions.retryAll(conversation), { hidden: true });
    this.pause = button("pause", "Pause", () => actions.pause(conversation), { hidden: true });
    this.resume = button("play", "Resume", () => actions.resume(conversation), { hidden: true });
    this.clear = button("bin", "Delete unsent", () => actions.clear(conversation, unsent(this.queue.scope.counts)), { hidden: true });
    this.review = h("a", { class: "button", href: queueLink(conversation), hidden: true }, "Review");
    this.earlier = h(
      "button",
      { type: "button", class: "earlier", hidden: true, onclick: () => this.want("wantsEarlier") },
      "Earlier messages",
    );
    this.later = h("button", { type: "button", class: "later", hidden: true, onclick: () => this.want("wantsLater") }, "Later messages");
    this.list = h("ol", { class: "bubbles", "aria-label": "Messages" });
    this.empty = h("p", { class: "quiet pad", hidden: true }, "No messages");
    this.scroller = h(
      "div",
      { class: "chat-scroll", tabindex: 0, role: "region", "aria-label": "History" },
      this.earlier,
      this.empty,
      this.list,
      this.later,
    );
    this.compose = new Compose(actions, () => conversation, (id) => this.showOwn(id), toConversation(conversation));
    // The history goes on by itself when an end of what is kept comes near the view.
    const look = () => (this.isNearStart() || this.isNearEnd()) && this.work();
    this.scroller.addEventListener("scroll", look, { passive: true });
    // A notice, or the keyboard of a phone, takes room: the newest message stays in view.
    let wasAtEnd = true;
    this.scroller.addEventListener("scroll", () => (wasAtEnd = this.isAtEnd()), { passive: true });
    this.resizing = new ResizeObserver(() => {
      if (wasAtEnd && this.isShown()) this.scroller.scrollTop = this.scroller.scrollHeight;
      look();
    });
    this.resizing.observe(this.scroller);
    this.element = h(
      "section",
      { class: "chat", "aria-label": conversationName(conversation) },
      h(
        "header",
        { class: "view-head" },
        h("a", { class: "button plain back", href: "#/conversations", "aria-label": "All conversations" }, icon("arrow-left")),
        h("div", { class: "view-title" }, h("h1", {}, this.titles.element(conversation)), this.summary),
        h("div", { class: "view-buttons" }, this.sendAll, this.retryAll, this.review, this.pause, this.resume, this.clear),
      ),
      this.scroller,
      this.compose.element,
    );
  }

  end() {
    this.isEnded = true;
    this.resizing.disconnect();
    for (const [name, listener] of this.listeners) this.queue.removeEventListener(name, listener);
    this.actions.drafts.removeEventListener("appended", this.readDraft);
  }

  // ---------------------------------------------------------------- the head

  updateHead() {
    const { queue } = this;
    const { counts, conversation, paused } = queue.scope;
    if (!queue.state || !counts || conversation !== this.conversation) return;
    // A conversation without messages is not known to the queue.
    if (paused !== null) this.isPaused = paused;
    else if (queue.state.paused_conversations === 0) this.isPaused = false;
    setText(this.summary, this.isPaused ? `Sending is paused. ${summaryOf(counts)}` : summaryOf(counts));
    // While offline the bar has these two.
    setHidden(
      [this.sendAll, counts.queued === 0 || queue.isOffline || !queue.canSend],
      [this.review, unsent(counts) === 0 || queue.isOffline],
      [this.retryAll, counts.failed === 0],
      [this.clear, unsent(counts) === 0],
      [this.pause, this.isPaused || !queue.canSend],
      [this.resume, !this.isPaused],
    );
    const isIdle = this.isPaused || !queue.canSendAll;
    this.sendAll.classList.toggle("orange", !isIdle);
    this.resume.classList.toggle("orange", this.isPaused && !queue.isOffline);
    this.draw(this.isAtEnd());
  }

  notePause({ conversation, paused }) {
    if (conversation !== this.conversation) return;
    this.isPaused = paused;
    this.updateHead();
  }

  // ---------------------------------------------------------------- messages

  /** Reads what changed. */
  follow(change) {
    this.pending = this.pending ? merged(this.pending, change) : change;
    return this.work();
  }

  /** Reads more at an end. */
  want(end) {
    this[end] = true;
    this.work();
  }

  /** Reads what changed, and then what the view needs, one after the other. */
  async readAll() {
    try {
      while (!this.isEnded && (await this.readNext()));
    } catch (problem) {
      this.queue.note(problem);
    }
  }

  /** Returns whether there was something to read. */
  async readNext() {
    if (this.pending) {
      const change = this.pending;
      this.pending = null;
      await this.read(change);
    } else if (this.wantsEarlier || this.isNearStart()) {
      await this.loadEarlier();
    } else if (this.wantsLater || this.isNearEnd()) {
      await this.loadLater();
    } else {
      return false;
    }
    return true;
  }

  async read({ everything, newest, ids = new Set(), removed = new Set() }) {
    if (newest && this.hasLater) {
      this.messages = [];
      this.hasLater = false;
    }
    this.messages = this.messages.filter(({ id }) => !removed.has(id));
    if (everything || newest || removed.size > 0 || ids.size > FEW) await this.readAgain();
    else await Promise.all([...ids].map((id) => this.readOne(id)));
    this.trim(newest || this.isAtEnd());
    await this.explain();
    this.draw(newest || this.isAtEnd());
  }

  /** Reads what is kept again: to the newest message, unless there are later ones than are kept. */
  async readAgain() {
    const limit = Math.min(Math.max(this.messages.length, PAGE), MOST);
    const last = this.hasLater ? this.messages.at(-1) : undefined;
    const page = await this.page(last ? { limit, after: last.sequence + 1, after_time_ms: last.time_ms } : { limit });
    const messages = page.messages.reverse();
    const known = new Set(this.messages.map(({ id }) => id));
    // Of the earlier ones, what is behind the page stays as it was read, if nothing can be missing between the two.
    const isContinued = page.next !== null && messages.some(({ id }) => known.has(id));
    if (last && messages.length === 0) {
      // All that was kept is gone.
      this.hasLater = false;
      this.messages = [];
      await this.readAgain();
      return;
    }
    if (!last && !isContinued && page.next !== null && known.size > 0 && !this.isAtEnd()) {
      // More came at once than a page has, while the person reads the history.
      this.hasLater = true;
      await this.readAgain();
      return;
    }
    const earlier = isContinued ? this.messages.filter((each) => compare(each, messages[0]) < 0) : [];
    if (earlier.length === 0) this.hasEarlier = page.next !== null;
    this.messages = [...earlier, ...messages];
  }

  async readOne(id) {
    try {
      const message = await this.server.call("get", { message: id });
      if (message.conversation !== this.conversation) return;
      const rest = this.messages.filter((each) => each.id !== id);
      // A new one from before or behind those that are kept, or one whose time moves it there, comes with its page.
      const before = this.messages.find((each) => each.id === id);
      const hasCome = rest.length > 0 && (!before || compare(before, message) !== 0);
      const isOutside =
        (this.hasEarlier && hasCome && compare(message, rest[0]) < 0) ||
        (this.hasLater && hasCome && compare(message, rest.at(-1)) > 0);
      this.messages = isOutside ? rest : [...rest, message].sort(compare);
    } catch (problem) {
      if (!(problem instanceof CallError) || problem.code !== "NOT_FOUND") throw problem;
      this.messages = this.messages.filter((each) => each.id !== id);
    }
  }

  /** Reads the page before the earliest message. */
  async loadEarlier() {
    this.wantsEarlier = false;
    if (!this.hasEarlier || this.messages.length === 0) return;
    const page = await this.page({ limit: PAGE, ...behind(this.messages[0]) });
    this.hasEarlier = page.next !== null && page.messages.length > 0;
    this.messages = [...page.messages.reverse(), ...this.messages];
    this.trim(false);
    this.draw(this.isAtEnd());
  }

  /** Reads the page behind the latest message that is kept. */
  async loadLater() {
    this.wantsLater = false;
    if (!this.hasLater || this.messages.length === 0) return;
    const page = await this.page({ limit: PAGE, ...behind(this.messages.at(-1)), newest_first: false });
    this.hasLater = page.next !== null && page.messages.length > 0;
    this.messages = [...this.messages, ...page.messages];
    this.trim(false);
    // At the end of what was kept there is more now, so that the view does not follow.
    this.draw(false);
  }

  /** Keeps the messages around those in view, or the newest ones if the view follows them. */
  trim(follows) {
    const excess = this.messages.length - MOST;
    if (excess <= 0) return;
    const middle = follows ? this.messages.length : this.indexInView();
    const first = Math.min(Math.max(middle - MOST / 2, 0), excess);
    if (first > 0) this.hasEarlier = true;
    if (first < excess) this.hasLater = true;
    this.messages = this.messages.slice(first, first + MOST);
  }

  page(fields) {
    return this.server.call("list", {
      conversation: this.conversation,
      statuses: ALL_STATUSES,
      order: "time",
      newest_first: true,
      bodies: true,
      ...fields,
    });
  }

  /** Asks why the first queued messages wait. */
  async explain() {
    const queued = this.messages
      .filter(({ status }) => status === "queued")
      .sort((one, other) => one.sequence - other.sequence)
      .slice(0, EXPLAINED);
    const answers = await Promise.all(queued.map(({ id }) => this.server.call("explain", { message: id }).catch(() => null)));
    this.explanations = new Map(queued.map(({ id }, index) => [id, answers[index]]));
  }

  async showOwn(id) {
    await this.follow({ newest: this.hasLater, ids: new Set([id]) });
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // ---------------------------------------------------------------- the view

  /** Whether the newest message is in view, or nearly. */
  isAtEnd() {
    return !this.hasLater && this.distanceToEnd() < NEAR;
  }

  isNearStart() {
    return this.hasEarlier && this.isShown() && this.scroller.scrollTop < SOON;
  }

  isNearEnd() {
    return this.hasLater && this.isShown() && this.distanceToEnd() < SOON;
  }

  isShown() {
    return this.messages.length > 0 && this.scroller.clientHeight > 0;
  }

  distanceToEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  /** The number of the first message in view that is in the page already; -1 without one. */
  indexInView() {
    const { top } = this.scroller.getBoundingClientRect();
    return this.messages.findIndex(({ id }) => this.bubbles.get(id)?.element.getBoundingClientRect().bottom > top);
  }

  /** Shows the messages. What was in view stays there, unless the view follows the newest message. */
  draw(follows) {
    const anchor = follows ? undefined : this.bubbles.get(this.messages[this.indexInView()]?.id)?.element;
    const before = anchor?.getBoundingClientRect().top;
    const kept = new Map();
    for (const message of this.messages) {
      const bubble = this.bubbles.get(message.id) ?? new Bubble(this.app, message);
      bubble.update(message, this.explanations.get(message.id) ?? null);
      kept.set(message.id, bubble);
    }
    for (const [id, { element }] of this.bubbles) {
      if (kept.has(id)) continue;
      const beside = element.nextElementSibling ?? element.previousElementSibling;
      const hadFocus = element.contains(document.activeElement);
      element.remove();
      if (hadFocus) focusOn(beside?.querySelector("button") ?? this.compose.text);
    }
    this.bubbles = kept;
    place(this.list, [...kept.values()].map(({ element }) => element));
    this.earlier.hidden = !this.hasEarlier;
    this.later.hidden = !this.hasLater;
    this.empty.hidden = this.messages.length > 0;
    if (follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    else if (anchor) this.scroller.scrollTop += anchor.getBoundingClientRect().top - before;
  }
}

/** Compares messages by their times, then by their sequence numbers. */
function compare(one, other) {
  return one.time_ms - other.time_ms || one.sequence - other.sequence;
}

/** Where the page behind a message begins. */
function behind({ time_ms, sequence }) {
  return { after: sequence, after_time_ms: time_ms };
}

/** Puts elements into a list in their order; those in their places are not moved, so that they keep the focus. */
function place(list, elements) {
  let next = list.firstElementChild;
  for (const element of elements) {
    if (element === next) next = next.nextElementSibling;
    else list.insertBefore(element, next);
  }
}

function merged(one, other) {
  return {
    everything: one.everything || other.everything,
    newest: one.newest || other.newest,
    ids: new Set([...(one.ids ?? []), ...(other.ids ?? [])]),
    removed: new Set([...(one.removed ?? []), ...(other.removed ?? [])]),
  };
}

function summaryOf(counts) {
  const parts = [
    [counts.queued, "queued"],
    [counts.sending, "being sent"],
    [counts.failed, "failed"],
    [counts.sent + counts.delivered + counts.read, "sent"],
    [counts.received, "received"],
    [counts.unread, "unread"],
  ];
  const said = parts.filter(([number]) => number > 0);
  return said.length === 0
    ? ""
    : said.map(([number, word], index) => `${index === 0 ? plural(number) : number} ${word}`).join(", ");
}

/** One conversation: its messages, oldest first, with history that loads page by page, and a field to write. */

import { Bubble } from "./bubble.js";
import { Compose } from "./compose.js";
import { foreign, h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { CallError } from "./server.js";
import { queueLink } from "./router.js";
import { ALL_STATUSES, conversationName, plural, unsent } from "./words.js";

const PAGE = 50;
/** Messages that are read one by one after a change; with more of them a page is read. */
const FEW = 10;
/** Queued messages of which the reason is asked. */
const EXPLAINED = 20;
/** Distance from the end at which the view follows new messages, in pixels. */
const NEAR = 80;

export class Chat {
  /**
   * @param {object} app
   * @param {string} conversation
   */
  constructor(app, conversation) {
    Object.assign(this, app, { app, conversation });
    /** Sorted by sequence. */
    this.messages = [];
    this.bubbles = new Map();
    this.explanations = new Map();
    this.hasEarlier = false;
    this.isLoading = false;
    /** Earlier messages were asked for while something was being read. */
    this.wantsEarlier = false;
    /** What changed while something was being read. */
    this.pending = null;
    /** Whether this conversation is paused, as far as it is known. */
    this.isPaused = null;
    this.build();
    this.listeners = [
      ["messages", (event) => this.follow(event.detail)],
      ["state", () => this.updateHead()],
      ["event:paused", (event) => this.notePause(event.detail)],
      ["event:connectivity", () => this.follow({ everything: true })],
    ];
    for (const [name, listener] of this.listeners) this.queue.addEventListener(name, listener);
    this.updateHead();
    this.follow({ everything: true });
  }

  build() {
    const { actions, conversation } = this;
    this.summary = h("p", { class: "reason" });
    this.sendAll = action("send", "Send All", "orange", () => actions.sendAll(conversation));
    this.retryAll = action("retry", "Retry all", "", () => actions.retryAll(conversation));
    this.pause = action("pause", "Pause", "", () => actions.pause(conversation));
    this.resume = action("play", "Resume", "", () => actions.resume(conversation));
    this.clear = action("bin", "Delete unsent", "", () =>
      actions.clear(conversation, unsent(this.queue.scope.counts)),
    );
    this.review = h("a", { class: "button", href: queueLink(conversation), hidden: true }, "Review");
    this.earlier = h(
      "button",
      { type: "button", class: "earlier", hidden: true, onclick: () => this.loadEarlier() },
      "Earlier messages",
    );
    this.list = h("ol", { class: "bubbles", "aria-label": "Messages" });
    this.empty = h("p", { class: "quiet pad", hidden: true }, "No messages");
    this.scroller = h(
      "div",
      { class: "chat-scroll", tabindex: 0, role: "region", "aria-label": "History" },
      this.earlier,
      this.empty,
      this.list,
    );
    this.compose = new Compose(
      actions,
      () => conversation,
      (id) => this.showOwn(id),
    );
    // The history goes on by itself when its beginning comes into view.
    this.watcher = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.loadEarlier(),
      { root: this.scroller, rootMargin: "400px" },
    );
    this.watcher.observe(this.earlier);
    this.element = h(
      "section",
      { class: "chat", "aria-label": conversationName(conversation) },
      h(
        "header",
        { class: "view-head" },
        h(
          "a",
          { class: "button plain back", href: "#/conversations", "aria-label": "All conversations" },
          icon("arrow-left"),
        ),
        h("div", { class: "view-title" }, h("h1", {}, foreign(conversationName(conversation))), this.summary),
        h(
          "div",
          { class: "view-buttons" },
          this.sendAll,
          this.retryAll,
          this.review,
          this.pause,
          this.resume,
          this.clear,
        ),
      ),
      this.scroller,
      this.compose.element,
    );
  }

  end() {
    this.watcher.disconnect();
    for (const [name, listener] of this.listeners) this.queue.removeEventListener(name, listener);
  }

  // ---------------------------------------------------------------- the head

  updateHead() {
    const { queue } = this;
    const { counts, banner, conversation } = queue.scope;
    if (!queue.state || !counts || conversation !== this.conversation) return;
    if (queue.state.paused_conversations === 0) this.isPaused = false;
    else if (!queue.isOffline && !queue.state.paused) this.isPaused = /paused/.test(banner);
    setText(this.summary, this.isPaused ? `Sending is paused. ${summaryOf(counts)}` : summaryOf(counts));
    // While offline the bar has these two.
    this.sendAll.hidden = counts.queued === 0 || queue.isOffline;
    this.review.hidden = unsent(counts) === 0 || queue.isOffline;
    this.retryAll.hidden = counts.failed === 0;
    this.clear.hidden = unsent(counts) === 0;
    // Offline it may be unknown; then both are offered.
    this.pause.hidden = this.isPaused === true;
    this.resume.hidden = this.isPaused === false;
    this.draw();
  }

  notePause({ conversation, paused }) {
    if (conversation !== this.conversation) return;
    this.isPaused = paused;
    this.updateHead();
  }

  // ---------------------------------------------------------------- messages

  /** Reads what changed. Only one reading runs; changes that come meanwhile are read after it. */
  async follow(change) {
    this.pending = this.pending ? merged(this.pending, change) : change;
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      while (this.pending) {
        const next = this.pending;
        this.pending = null;
        await this.read(next);
      }
    } catch (problem) {
      this.queue.note(problem);
    } finally {
      this.isLoading = false;
    }
    if (this.wantsEarlier) this.loadEarlier();
  }

  async read({ everything, ids = new Set(), removed = new Set() }) {
    const wasAtEnd = this.isAtEnd();
    this.messages = this.messages.filter(({ id }) => !removed.has(id));
    if (everything || removed.size > 0 || ids.size > FEW) await this.readNewest();
    else await Promise.all([...ids].map((id) => this.readOne(id)));
    await this.explain();
    this.draw();
    if (wasAtEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  async readNewest() {
    const limit = Math.min(Math.max(this.messages.length, PAGE), 1000);
    const page = await this.page({ limit });
    const messages = page.messages.reverse();
    const oldest = messages[0]?.sequence ?? Infinity;
    // Of the earlier ones, what is behind the page stays as it was read, if nothing can be missing between the two.
    const known = new Set(this.messages.map(({ id }) => id));
    const isContinued = page.next !== null && messages.some(({ id }) => known.has(id));
    const earlier = isContinued ? this.messages.filter(({ sequence }) => sequence < oldest) : [];
    if (earlier.length === 0) this.hasEarlier = page.next !== null;
    this.messages = [...earlier, ...messages];
  }

  async readOne(id) {
    try {
      const message = await this.server.call("get", { message: id });
      if (message.conversation !== this.conversation) return;
      const rest = this.messages.filter((each) => each.id !== id);
      // A message from before the loaded history comes with its page.
      if (rest.length === this.messages.length && this.hasEarlier && message.sequence < this.messages[0]?.sequence)
        return;
      this.messages = [...rest, message].sort((one, other) => one.sequence - other.sequence);
    } catch (problem) {
      if (!(problem instanceof CallError) || problem.code !== "NOT_FOUND") throw problem;
      this.messages = this.messages.filter((each) => each.id !== id);
    }
  }

  /** Reads the page before the earliest message, and keeps in view what was in view. */
  async loadEarlier() {
    this.wantsEarlier = this.isLoading;
    if (this.isLoading || !this.hasEarlier || this.messages.length === 0) return;
    this.isLoading = true;
    try {
      const page = await this.page({ limit: PAGE, after: this.messages[0].sequence });
      this.hasEarlier = page.next !== null;
      this.messages = [...page.messages.reverse(), ...this.messages];
      const fromEnd = this.scroller.scrollHeight - this.scroller.scrollTop;
      this.draw();
      this.scroller.scrollTop = this.scroller.scrollHeight - fromEnd;
    } catch (problem) {
      this.queue.note(problem);
    } finally {
      this.isLoading = false;
    }
    if (this.pending) {
      const next = this.pending;
      this.pending = null;
      this.follow(next);
    }
  }

  page(fields) {
    return this.server.call("list", {
      conversation: this.conversation,
      statuses: ALL_STATUSES,
      newest_first: true,
      bodies: true,
      ...fields,
    });
  }

  /** Asks why the first queued messages wait. */
  async explain() {
    const queued = this.messages.filter(({ status }) => status === "queued").slice(0, EXPLAINED);
    const answers = await Promise.all(
      queued.map(({ id }) => this.server.call("explain", { message: id }).catch(() => null)),
    );
    this.explanations = new Map(queued.map(({ id }, index) => [id, answers[index]]));
  }

  async showOwn(id) {
    await this.follow({ everything: false, ids: new Set([id]) });
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  isAtEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < NEAR;
  }

  draw() {
    const kept = new Map();
    for (const message of this.messages) {
      const bubble = this.bubbles.get(message.id) ?? new Bubble(this.app, message);
      bubble.update(message, this.explanations.get(message.id) ?? null);
      kept.set(message.id, bubble);
    }
    for (const [id, bubble] of this.bubbles) if (!kept.has(id)) bubble.element.remove();
    this.bubbles = kept;
    place(
      this.list,
      [...kept.values()].map(({ element }) => element),
    );
    this.earlier.hidden = !this.hasEarlier;
    this.empty.hidden = this.messages.length > 0;
  }
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

function action(iconName, label, kind, run) {
  return h(
    "button",
    {
      type: "button",
      class: kind,
      hidden: true,
      "data-action": label.toLowerCase().replace(" ", "-"),
      onclick: run,
    },
    icon(iconName),
    label,
  );
}

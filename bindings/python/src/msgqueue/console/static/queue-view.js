/** The queue: every unsent message, in the order of sending. */

import { h, setAttribute, setHidden, setText } from "./dom.js";
import { icon } from "./icons.js";
import { LONGEST, MessagePages } from "./message-pages.js";
import { MessageRow } from "./message-row.js";
import { openMessage } from "./message-sheet.js";
import { countsDown } from "./reasons.js";
import { WindowedList } from "./windowed-list.js";
import { conversationLink, queueLink } from "./router.js";
import { conversationName, count, unsent } from "./words.js";

const FILTERS = [
  { name: "all", label: "All", statuses: ["queued", "sending", "failed"], number: unsent },
  { name: "queued", label: "Queued", statuses: ["queued", "sending"], number: (counts) => counts.queued + counts.sending },
  { name: "failed", label: "Failed", statuses: ["failed"], number: (counts) => counts.failed },
];

export class QueueView {
  /**
   * @param {object} app The parts of the page.
   * @param {import("./router.js").Route} route
   */
  constructor(app, { conversation, query }) {
    Object.assign(this, app, { conversation });
    this.filter = FILTERS.find(({ name }) => name === query.get("show")) ?? FILTERS[0];
    this.isEnded = false;
    this.pages = new MessagePages(this.server, { conversation, statuses: this.filter.statuses });
    this.list = new WindowedList(
      this.pages,
      "Messages in the order of sending",
      () =>
        new MessageRow(this, (message) => openMessage(app, message.id), (id) => this.pages.find(id)),
    );
    this.build();
    this.listeners = [
      [this.queue, "state", () => this.followState()],
      [this.queue, "messages", (event) => this.follow(event.detail)],
      [this.pages, "change", () => this.updateBody()],
      [this.pages, "problem", (event) => this.queue.note(event.detail)],
    ];
    for (const [target, name, listener] of this.listeners) target.addEventListener(name, listener);
    // Reasons with a time count down.
    this.timer = setInterval(() => this.pages.rows.some(countsDown) && this.list.schedule(), 1_000);
    this.pages.reload();
    this.updateHead();
  }

  build() {
    const { actions, conversation } = this;
    this.title = h("h1", {});
    this.reason = h("p", { class: "reason" });
    this.sendAll = button("send", "Send All", "orange", () => this.startSending());
    this.sendFailed = button("send", "Send All with the failed", "", () => this.startSending(true));
    this.retryAll = button("retry", "Retry all", "", () => actions.retryAll(conversation));
    this.pause = button("pause", "Pause", "", () => actions.pause(null));
    this.resume = button("play", "Resume", "", () => actions.resume(null));
    this.filters = FILTERS.map((filter) => {
      const number = h("span", { class: "number" });
      const link = `${queueLink(conversation)}${filter.name === "all" ? "" : `?show=${filter.name}`}`;
      return {
        filter,
        number,
        element: h("a", { href: link, "aria-current": filter === this.filter ? "true" : null }, filter.label, number),
      };
    });
    this.empty = h(
      "div",
      { class: "empty", hidden: true },
      icon("check-circle"),
      h("h2", {}, this.filter.name === "failed" ? "No failed messages" : "No queued messages"),
      h(
        "p",
        {},
        this.filter.name === "failed"
          ? "Messages that fail will appear here"
          : "What cannot be sent at once will appear here, for example while offline",
      ),
    );
    this.more = h(
      "p",
      { class: "note", hidden: true },
      `The first ${count(LONGEST)} messages are shown. Choose a conversation, or search.`,
    );
    this.element = h(
      "section",
      { class: "view queue-view" },
      h(
        "header",
        { class: "view-head" },
        h("div", { class: "view-title" }, this.title, conversation !== null && this.scopeChip(), this.reason),
        h(
          "div",
          { class: "view-buttons" },
          this.sendAll,
          this.sendFailed,
          this.retryAll,
          conversation === null && this.pause,
          conversation === null && this.resume,
        ),
      ),
      h("nav", { class: "filters", "aria-label": "Which messages" }, ...this.filters.map(({ element }) => element)),
      this.more,
      this.list.element,
      this.empty,
    );
  }

  scopeChip() {
    return h(
      "p",
      { class: "chip" },
      "Conversation ",
      h("a", { href: conversationLink(this.conversation) }, this.titles.element(this.conversation)),
      h("a", { class: "plain", href: queueLink(), "aria-label": "Show all conversations" }, icon("close")),
    );
  }

  /** Ends the view. */
  end() {
    clearInterval(this.timer);
    this.isEnded = true;
    this.list.end();
    for (const [target, name, listener] of this.listeners) target.removeEventListener(name, listener);
  }

  /** What a message waits for may change with the queue, without an event of the message. */
  followState() {
    const { state } = this.queue;
    const cause = JSON.stringify([
      ...[state?.connectivity, state?.metered, state?.lifecycle, state?.paused, state?.paused_conversations],
      ...[state?.has_transport, state?.storage_trouble, state?.reason, state?.draining],
    ]);
    if (this.cause !== undefined && this.cause !== cause) this.pages.reload();
    this.cause = cause;
    this.updateHead();
  }

  updateHead() {
    const { queue } = this;
    const { counts } = queue.scope;
    if (!counts || !queue.state || queue.scope.conversation !== this.conversation) return;
    setText(this.title, `${queue.isOffline ? "Offline queue" : "Queue"} (${count(unsent(counts))})`);
    document.title = `${queue.isOffline ? "Offline queue" : "Queue"} (${count(unsent(queue.counts))}) · msgqueue`;
    setText(this.reason, this.reasonText(counts));
    // While offline the bar has this button.
    const hasNothing = counts.queued === 0 || queue.isOffline || !queue.canSend;
    setHidden(
      [this.sendAll, hasNothing],
      [this.sendFailed, hasNothing || counts.failed === 0 || !queue.canSendAll],
      [this.retryAll, counts.failed === 0],
      // A pause ends with the program, so that without one there is none.
      [this.pause, queue.state.paused || !queue.canSend],
      [this.resume, !queue.state.paused],
    );
    // The main action is the one that helps; while sending is paused it is in the bar.
    this.sendAll.classList.toggle("orange", queue.canSendAll);
    const isBusy = queue.running.has("drain") || (queue.state.draining && !queue.state.paused && !queue.isOffline);
    setAttribute(this.sendAll, "aria-disabled", isBusy ? "true" : null);
    setAttribute(this.sendFailed, "aria-disabled", isBusy ? "true" : null);
    setAttribute(this.retryAll, "aria-disabled", queue.running.has("retry_all") ? "true" : null);
    for (const { filter, number } of this.filters) setText(number, count(filter.number(counts)));
  }

  /** Why nothing is being sent, where the bars do not say it. */
  reasonText(counts) {
    const { state } = this.queue;
    if (state.reason === "offline") return state.offline_reason ?? "";
    const isSaid = ["none", "paused", "no_transport", "storage"].includes(state.reason);
    return counts.queued === 0 || isSaid ? "" : state.text;
  }

  updateBody() {
    const isEmpty = this.pages.isLoaded && this.pages.total === 0;
    this.empty.hidden = !isEmpty;
    setHidden([this.list.element, isEmpty]);
    this.more.hidden = this.pages.total <= LONGEST;
  }

  follow({ removed }) {
    this.pages.drop(removed);
    this.list.schedule();
    this.pages.reload();
  }

  /** Sends everything. Then the view returns to where the person came from, unless something is left to look at. */
  startSending(withFailed = false) {
    const { previous } = this.router;
    this.actions.sendAll(this.conversation, withFailed, ({ remaining, remaining_failed: failed }) => {
      const isLeft = this.isEnded || document.querySelector("dialog[open]") !== null;
      if (previous && !isLeft && remaining === 0 && failed === 0) this.router.go(previous);
    });
  }
}

function button(iconName, label, kind, run) {
  return h(
    "button",
    { type: "button", class: kind, hidden: true, onclick: (event) => event.currentTarget.ariaDisabled !== "true" && run() },
    icon(iconName),
    label,
  );
}

/** The queue: every unsent message, in the order of sending. */

import { deleteGroup, exportMessages } from "./bulk.js";
import { button, fill, h, setAttribute, setHidden, setText } from "./dom.js";
import { FailureGroups } from "./failure-groups.js";
import { icon } from "./icons.js";
import { LONGEST, MessagePages } from "./message-pages.js";
import { MessageRow } from "./message-row.js";
import { openMessage } from "./message-sheet.js";
import { filterOf, QueueFilters, STATUS_FILTERS } from "./queue-filters.js";
import { countsDown } from "./reasons.js";
import { conversationLink, queueLink } from "./router.js";
import { Selection } from "./selection.js";
import { Survey } from "./survey.js";
import { WindowedList } from "./windowed-list.js";
import { conversationName, count, unsent } from "./words.js";

export class QueueView {
  /**
   * @param {object} app The parts of the page.
   * @param {import("./router.js").Route} route
   */
  constructor(app, route) {
    Object.assign(this, app, { conversation: route.conversation });
    this.filter = filterOf(route);
    this.isFiltered = Boolean(this.filter.by);
    this.isEnded = false;
    this.cause = causeOf(this.queue.state);
    this.pages = new MessagePages(this.server, this.filter);
    const find = (id) => this.pages.find(id);
    const makeRow = () => new MessageRow(this, (message) => openMessage(app, message.id), find);
    this.list = new WindowedList(this.pages, "Messages", makeRow);
    this.selection = new Selection(this.actions, () => this.updateSelection());
    this.fields = new QueueFilters(app, this.filter);
    this.groups = new FailureGroups(this.actions);
    this.survey = new Survey(app, () => this.updateSurvey());
    this.build();
    this.listeners = [
      [this.queue, "state", () => this.followState()],
      [this.queue, "messages", (event) => this.follow(event.detail)],
      [this.queue, "event:paused", () => this.survey.follow()],
      [this.pages, "change", () => this.updateBody()],
      [this.pages, "problem", (event) => this.queue.note(event.detail)],
    ];
    for (const [target, name, listener] of this.listeners) target.addEventListener(name, listener);
    // Reasons with a time count down.
    this.timer = setInterval(() => this.countDown(), 1_000);
    this.pages.reload();
    this.updateHead();
  }

  build() {
    const { actions, conversation, filter } = this;
    const hidden = { hidden: true };
    this.title = h("h1", {});
    this.reason = h("p", { class: "reason" });
    this.sendAll = button("send", "Send All", () => this.startSending(), { ...hidden, class: "orange" });
    this.sendFailed = button("send", "Send All with the failed", () => this.startSending(true), hidden);
    this.retryAll = button("retry", "Retry all", () => actions.retryAll(conversation, filter.group), hidden);
    this.deleteAll = button("bin", "Delete all", () => deleteGroup(actions, conversation, filter.group), hidden);
    this.pause = button("pause", "Pause", () => actions.pause(null), hidden);
    this.resume = button("play", "Resume", () => actions.resume(null), hidden);
    this.save = button("save", "Export", () => exportMessages(actions, filter));
    this.filters = STATUS_FILTERS.map((each) => {
      const number = h("span", { class: "number" });
      const href = `${queueLink(conversation)}${each.name === "all" ? "" : `?show=${each.name}`}`;
      const isChosen = each === filter.shown && (each.name !== "all" || !this.isFiltered);
      return { each, number, element: h("a", { href, "aria-current": isChosen ? "true" : null }, each.label, number) };
    });
    this.empty = h("div", { class: "empty", hidden: true }, ...this.emptyState());
    this.more = h(
      "p",
      { class: "note", hidden: true },
      `The first ${count(LONGEST)} messages are shown. Choose a filter or a conversation, or search.`,
    );
    const ofQueue = conversation === null && [this.pause, this.resume];
    this.element = h(
      "section",
      { class: "view queue-view" },
      h(
        "header",
        { class: "view-head" },
        h("div", { class: "view-title" }, this.title, conversation !== null && this.scopeChip(), this.reason),
        h("div", { class: "view-buttons" }, this.sendAll, this.sendFailed, this.retryAll, this.deleteAll, ...(ofQueue || [])),
      ),
      h(
        "div",
        { class: "tools" },
        h("nav", { class: "filters", "aria-label": "Which messages" }, ...this.filters.map(({ element }) => element)),
        this.fields.element,
        h("div", { class: "tool-buttons" }, this.selection.begin, this.save),
      ),
      this.selection.element,
      this.groups.element,
      this.more,
      this.list.element,
      this.empty,
    );
  }

  emptyState() {
    const [title, text] = this.isFiltered
      ? ["No such messages", "No message is selected by the filter now."]
      : this.filter.shown.name === "failed"
        ? ["No failed messages", "Messages that fail will appear here"]
        : ["No queued messages", "What cannot be sent at once will appear here, for example while offline"];
    return [icon(this.isFiltered ? "search" : "check-circle"), h("h2", {}, title), h("p", {}, text)];
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
    this.survey.end();
    for (const [target, name, listener] of this.listeners) target.removeEventListener(name, listener);
  }

  /** What a message waits for may change with the queue, without an event of the message. */
  followState() {
    const { cause } = this;
    this.cause = causeOf(this.queue.state);
    if (this.cause !== cause) {
      this.pages.reload();
      this.survey.follow();
    }
    this.updateHead();
  }

  updateHead() {
    const { queue } = this;
    const { counts } = queue.scope;
    if (!counts || !queue.state || queue.scope.conversation !== this.conversation) return;
    setText(this.title, `${queue.isOffline ? "Offline queue" : "Queue"} (${count(unsent(counts))})`);
    document.title = `${queue.isOffline ? "Offline queue" : "Queue"} (${count(unsent(queue.counts))}) · msgqueue`;
    const said = this.survey.headline(counts, this.conversation).filter(Boolean);
    const text = said.map((part) => part.textContent ?? part).join("");
    if (this.reason.textContent !== text) fill(this.reason, ...said);
    // While offline the bar has this button.
    const hasNothing = counts.queued === 0 || queue.isOffline || !queue.canSend;
    setHidden(
      [this.sendAll, hasNothing],
      [this.sendFailed, hasNothing || counts.failed === 0 || !queue.canSendAll],
      [this.retryAll, counts.failed === 0],
      [this.deleteAll, counts.failed === 0 || !this.filter.group],
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
    for (const { each, number } of this.filters) setText(number, count(each.number(counts)));
  }

  updateSurvey() {
    const { groups } = this.survey;
    const isAll = this.filter.shown.name === "all";
    // One message alone says itself why it failed.
    const shown = isAll ? groups.filter((group) => group.count > 1) : groups;
    const hasRoom = this.conversation === null && !this.isFiltered && this.filter.shown.name !== "queued";
    this.groups.update(hasRoom ? shown : []);
    this.fields.update(groups);
    this.updateHead();
  }

  countDown() {
    if (this.pages.rows.some(countsDown)) this.list.schedule();
    if (this.survey.waiting?.next_retry_ms) this.updateHead();
  }

  updateBody() {
    const isEmpty = this.pages.isLoaded && this.pages.total === 0;
    this.empty.hidden = !isEmpty;
    const { isOn, begin } = this.selection;
    setHidden([this.list.element, isEmpty], [begin, isEmpty || isOn], [this.save, isEmpty || isOn]);
    this.more.hidden = this.pages.total <= LONGEST;
  }

  updateSelection() {
    this.list.schedule();
    if (this.save) setHidden([this.save, this.selection.isOn || this.pages.total === 0]);
  }

  follow(change) {
    this.pages.drop(change.removed);
    this.selection.follow(change, (id) => this.pages.find(id));
    this.survey.follow();
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

const causeOf = (state) =>
  JSON.stringify([
    ...[state?.connectivity, state?.metered, state?.lifecycle, state?.paused, state?.paused_conversations],
    ...[state?.has_transport, state?.storage_trouble, state?.reason, state?.draining],
  ]);

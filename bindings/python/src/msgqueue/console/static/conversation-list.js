/** The conversations, the one with the newest message by time first. */

import { countBadges, pausedBadge } from "./badge.js";
import { fill, foreign, h, newId, setAttribute } from "./dom.js";
import { oneByOne } from "./one-by-one.js";
import { conversationLink } from "./router.js";
import { timeElement } from "./times.js";
import { conversationName, STATUSES, visible } from "./words.js";

const PAGE = 50;
/** The shortest time between two readings, in milliseconds. */
const INTERVAL = 400;

export class ConversationList {
  constructor(app, selected) {
    Object.assign(this, app, { selected });
    this.limit = PAGE;
    this.timer = 0;
    this.readAt = 0;
    this.load = oneByOne(() => this.loadOnce());
    this.shown = "";
    this.list = h("ul", { class: "conversations" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.showMore() }, "Show more conversations");
    this.empty = h("p", { class: "quiet pad", hidden: true }, "No conversations. Each one appears here with its first message.");
    this.element = h("nav", { class: "conversation-list", "aria-label": "Conversations" }, this.list, this.empty, this.more);
    this.follow = () => this.schedule();
    this.queue.addEventListener("messages", this.follow);
    this.queue.addEventListener("event:paused", this.follow);
    this.load();
  }

  end() {
    clearTimeout(this.timer);
    this.queue.removeEventListener("messages", this.follow);
    this.queue.removeEventListener("event:paused", this.follow);
  }

  showMore() {
    this.limit += PAGE;
    this.load();
  }

  schedule() {
    if (this.timer) return;
    this.timer = setTimeout(
      () => {
        this.timer = 0;
        this.load();
      },
      Math.max(INTERVAL - (Date.now() - this.readAt), 0),
    );
  }

  async loadOnce() {
    this.readAt = Date.now();
    try {
      this.show(await this.read());
    } catch (problem) {
      this.queue.note(problem);
    }
  }

  /** Reads as many conversations as are shown. */
  async read() {
    const all = [];
    let before = 0;
    let beforeTime = 0;
    while (all.length < this.limit && before !== null) {
      const page = await this.server.call("conversations", {
        before,
        ...(beforeTime ? { before_time_ms: beforeTime } : {}),
        order: "time",
        limit: Math.min(this.limit - all.length, 1000),
      });
      all.push(...page.conversations);
      before = page.next;
      beforeTime = page.next_time_ms;
    }
    this.more.hidden = before === null;
    return all;
  }

  show(conversations) {
    this.titles.note(conversations);
    const shown = JSON.stringify(conversations);
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(this.list, ...conversations.map((each) => this.item(each)));
    this.empty.hidden = conversations.length > 0;
    if (focused)
      [...this.list.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }

  item({ name, counts, last, title, paused }) {
    const id = newId();
    const link = h(
      "a",
      { href: conversationLink(name), "aria-describedby": id },
      h("span", { class: "item-head" }, foreign(title ? visible(title) : conversationName(name), "name"), timeElement(last.time_ms)),
      h("span", { class: "item-text", id }, this.prefix(last), foreign(last.preview || "(empty)")),
      h("span", { class: "badges" }, paused && pausedBadge(), ...countBadges(counts)),
    );
    setAttribute(link, "aria-current", name === this.selected ? "page" : null);
    return h("li", {}, link);
  }

  prefix({ sender, status }) {
    if (sender !== null) return null;
    return h("span", { class: `prefix ${STATUSES[status].colour}` }, `${STATUSES[status].label.replace("…", "")}: `);
  }
}

/** Messages that contain a text, the newest first. The search goes through the messages page by page. */

import { fill, focusOn, h, setText } from "./dom.js";
import { MessageRow } from "./message-row.js";
import { openMessage } from "./message-sheet.js";
import { CallError } from "./server.js";
import { count, plural } from "./words.js";

/** Matches after which the search waits for the person. */
const MATCHES = 100;

export class SearchView {
  constructor(app, { query }) {
    Object.assign(this, app, { app });
    this.text = query.get("q") ?? "";
    this.searched = 0;
    this.found = 0;
    this.next = 0;
    this.isEnded = false;
    /** Of the messages that were found, by id. */
    this.rows = new Map();
    this.follower = ({ detail }) => this.follow(detail);
    this.queue.addEventListener("messages", this.follower);
    document.title = "Search · msgqueue";
    this.status = h("p", { class: "reason", role: "status" });
    this.list = h("ul", { class: "results" });
    this.stop = h("button", { type: "button", hidden: true, onclick: () => (this.isStopped = true) }, "Stop");
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.search() }, "Search on");
    this.element = h(
      "section",
      { class: "view search-view" },
      h(
        "header",
        { class: "view-head" },
        h("div", { class: "view-title" }, h("h1", {}, "Search"), this.status),
        h("div", { class: "view-buttons" }, this.stop),
      ),
      this.list,
      this.more,
    );
    if (this.text) this.search();
    else this.list.replaceWith(help());
  }

  end() {
    this.isEnded = true;
    this.queue.removeEventListener("messages", this.follower);
  }

  /** Searches on until enough is found, the person stops it, or all messages were searched. */
  async search() {
    const enough = this.found + MATCHES;
    this.isStopped = false;
    this.more.hidden = true;
    this.stop.hidden = false;
    try {
      while (!this.isEnded && !this.isStopped && this.next !== null && this.found < enough) {
        const result = await this.server.request("/api/search", { text: this.text, after: this.next });
        this.searched += result.searched;
        this.found += result.messages.length;
        this.next = result.next;
        this.list.append(...result.messages.map((message) => this.item(message)));
        this.show();
      }
    } catch (problem) {
      this.actions.report(problem);
    }
    this.stop.hidden = true;
    this.more.hidden = this.next === null;
  }

  show() {
    const matches = this.found === 1 ? "1 match" : `${count(this.found)} matches`;
    setText(this.status, `${matches} for “${this.text}” in ${this.next === null ? "all " : "the newest "}${plural(this.searched)}`);
  }

  item(message) {
    const row = new MessageRow(this, (shown) => openMessage(this.app, shown.id), (id) => this.rows.get(id)?.message);
    this.rows.set(message.id, row);
    row.element.removeAttribute("role");
    this.showIn(row, message, message.excerpt);
    return h("li", {}, row.element);
  }

  showIn(row, message, excerpt) {
    row.excerpt = excerpt;
    row.update(message);
    fill(row.preview, ...marked(excerpt, this.text));
  }

  /** What is shown stays current, so that only what can work is offered. */
  async follow({ everything, ids, removed }) {
    for (const id of removed) this.remove(id);
    const changed = [...this.rows.values()].filter(({ message }) => everything || ids.has(message.id));
    for (const row of changed) await this.refresh(row);
  }

  async refresh(row) {
    const { id, edited_ms: edited } = row.message;
    try {
      const message = await this.server.call("get", { message: id });
      this.showIn(row, message, message.edited_ms === edited ? row.excerpt : message.preview);
    } catch (problem) {
      if (problem instanceof CallError && problem.code === "NOT_FOUND") this.remove(id);
      else this.queue.note(problem);
    }
  }

  remove(id) {
    const element = this.rows.get(id)?.element;
    if (element?.contains(document.activeElement)) focusOn((element.parentElement.nextElementSibling ?? this.list).querySelector("button"));
    element?.parentElement.remove();
    this.rows.delete(id);
  }
}

/** What a search finds, before there is one. */
function help() {
  const rows = [
    ["A part of a text", "invoice"],
    ["A conversation or a sender", "ana"],
    ["An id of a message", "01932c5a-8f00"],
    ["Metadata, by name and value", "kind: invoice"],
  ];
  return h(
    "div",
    { class: "search-help" },
    h("p", {}, "All messages are searched, sent and received ones too. Upper and lower case are the same."),
    h("dl", { class: "facts" }, ...rows.flatMap(([what, example]) => [h("dt", {}, what), h("dd", {}, h("code", {}, example))])),
    h("p", { class: "quiet" }, "The key / leads to the search from anywhere."),
  );
}

/** A text in which what was searched for is marked. */
function marked(text, part) {
  const parts = [];
  const pattern = new RegExp(part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(end, match.index), h("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

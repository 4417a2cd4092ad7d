/** The titles of conversations, read when they are first shown. */

import { foreign, setAttribute, setText } from "./dom.js";
import { oneByOne } from "./one-by-one.js";
import { CallError } from "./server.js";
import { conversationName, visible } from "./words.js";

/** Conversations that are read at a time, and how many times: with more of them the names of the rest are shown. */
const PAGE = 1_000;
const PAGES = 5;

export class Titles {
  /** @param {import("./server.js").Server} server */
  constructor(server) {
    this.server = server;
    /** By the name of the conversation; null: it has none. */
    this.known = new Map();
    this.wanted = new Set();
    this.load = oneByOne(() => this.loadOnce());
  }

  /**
   * @param {string} name
   * @returns {string} What a person calls the conversation, as far as it is known.
   */
  textOf(name) {
    if (!this.known.has(name) && !this.wanted.has(name)) {
      this.wanted.add(name);
      this.load();
    }
    const title = this.known.get(name);
    return title ? visible(title) : conversationName(name);
  }

  /** Shows a conversation in an element, and its title when that is known. */
  set(element, name) {
    element.dataset.conversation = name;
    const text = this.textOf(name);
    setText(element, text);
    setAttribute(element, "title", text === conversationName(name) ? null : conversationName(name));
  }

  /**
   * @param {string} name
   * @param {string} [className]
   * @returns {HTMLElement}
   */
  element(name, className) {
    const element = foreign("", className);
    this.set(element, name);
    return element;
  }

  /** Takes the titles of conversations that were read. */
  note(conversations) {
    for (const { name, title } of conversations) {
      this.known.set(name, title);
      this.wanted.delete(name);
    }
    for (const element of document.querySelectorAll("[data-conversation]")) {
      this.set(element, element.dataset.conversation);
    }
  }

  async loadOnce() {
    let before = 0;
    try {
      for (let page = 0; page < PAGES && before !== null && this.wanted.size > 0; page += 1) {
        const { conversations, next } = await this.server.call("conversations", { before, limit: PAGE });
        this.note(conversations);
        before = next;
      }
    } catch (problem) {
      // The names are shown. Of a queue that was closed the bars tell.
      if (!(problem instanceof CallError)) return;
    }
    for (const name of this.wanted) this.known.set(name, null);
    this.wanted.clear();
  }
}

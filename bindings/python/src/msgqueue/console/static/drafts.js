/** What a person has typed and neither sent nor saved. It survives a change of view and a reload, in this tab only. */

/** Event: "appended" (a text was added to a draft). */
export class Drafts extends EventTarget {
  /** @param {string} store The path of the store: another one may be shown at the same address later. */
  constructor(store) {
    super();
    this.prefix = `draft ${JSON.stringify(store)} `;
    /** Those for which the browser has no room. A reload would lose them, so that it asks. */
    this.large = new Map();
    /** The messages whose edit is open in a sheet. */
    this.open = new Set();
    addEventListener("beforeunload", (event) => this.large.size > 0 && event.preventDefault());
  }

  /**
   * @param {string} name
   * @returns {any} What was kept under that name; null: nothing.
   */
  get(name) {
    const text = this.large.get(name) ?? sessionStorage.getItem(this.prefix + name);
    return text === null ? null : JSON.parse(text);
  }

  /**
   * Keeps something; null removes it.
   * @param {string} name
   * @param {any} draft A value of JSON.
   */
  set(name, draft) {
    this.large.delete(name);
    sessionStorage.removeItem(this.prefix + name);
    if (draft === null) return;
    const text = JSON.stringify(draft);
    try {
      sessionStorage.setItem(this.prefix + name, text);
    } catch {
      this.large.set(name, text);
    }
  }

  /** Adds a text to the draft of a message to a conversation. */
  append(conversation, text) {
    const name = toConversation(conversation);
    const written = this.get(name);
    this.set(name, written ? `${written}\n\n${text}` : text);
    this.dispatchEvent(new CustomEvent("appended"));
  }

  /** Returns the ids of the messages whose edit was kept. */
  edits() {
    const begin = this.prefix + ofEdit("");
    const stored = Object.keys(sessionStorage).filter((key) => key.startsWith(begin));
    const names = [...stored.map((key) => key.slice(this.prefix.length)), ...this.large.keys()];
    return names.filter((name) => name.startsWith(ofEdit(""))).map((name) => name.slice(ofEdit("").length));
  }
}

/** The name of the draft of a message to a conversation. */
export const toConversation = (conversation) => `to ${conversation}`;

/** The name of the id under which a draft is queued. */
export const idOf = (draft) => `id of ${draft}`;

/** The name of the draft of an edit. */
export const ofEdit = (id) => `edit ${id}`;

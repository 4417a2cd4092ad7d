/** The address of the page: which view it shows. */

/**
 * @typedef {object} Route
 * @property {"queue"|"conversations"|"activity"|"search"} view
 * @property {string|null} conversation
 * @property {URLSearchParams} query
 */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const found = /^\/(queue|conversations|activity|search)(?:\/(.*))?$/.exec(path);
  if (!found) return { view: "queue", conversation: null, query: new URLSearchParams() };
  return { view: found[1], conversation: decoded(found[2]), query: new URLSearchParams(query) };
}

/**
 * @param {string} conversation
 * @returns {string} The address of a conversation.
 */
export const conversationLink = (conversation) => `#/conversations/${encodeURIComponent(conversation)}`;

/**
 * @param {string|null} [conversation]
 * @returns {string} The address of the queue, of one conversation or of all.
 */
export const queueLink = (conversation = null) =>
  conversation === null ? "#/queue" : `#/queue/${encodeURIComponent(conversation)}`;

export class Router {
  /** @param {(route: Route) => void} show */
  constructor(show) {
    this.show = show;
    /** The address before the present one; null at the beginning. */
    this.previous = null;
    this.present = location.hash;
    addEventListener("hashchange", () => {
      // The link that skips to the content is not an address of a view.
      if (location.hash !== "" && !location.hash.startsWith("#/")) return;
      [this.previous, this.present] = [this.present, location.hash];
      this.show(parseRoute(location.hash));
    });
  }

  start() {
    this.show(parseRoute(location.hash));
  }

  /** @param {string} link */
  go(link) {
    location.hash = link;
  }
}

function decoded(text) {
  if (text === undefined) return null;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

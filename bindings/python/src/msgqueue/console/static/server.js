/** The server of the console: requests and their errors. */

/** The owner of the store refused a call. `code` is that of the library, as NOT_FOUND. */
export class CallError extends Error {
  constructor(code, text) {
    super(text);
    this.code = code;
  }
}

/** The console does not answer: it has ended, or this browser is offline. */
export class UnreachableError extends Error {}

/** The console does not know this browser: it was started again, or the address was not the right one. */
export class NoAccessError extends Error {}

/** Where the key of this tab is kept. Unlike a cookie, it goes to no other server of this machine. */
const KEY = "key";

export class Server {
  /** @param {number} store The number of the store among those of the console. */
  constructor(store) {
    this.store = store;
  }

  /** Exchanges the token of the address for a key. A token that was used already leaves the key as it is. */
  async enter() {
    const address = new URL(location.href);
    const token = address.searchParams.get("token");
    if (token === null) return;
    try {
      sessionStorage.setItem(KEY, (await this.request("/api/enter", { token })).key);
    } catch (problem) {
      if (!(problem instanceof NoAccessError)) throw problem;
    }
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }

  /** @returns {object} The headers of every request. */
  get headers() {
    return { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  }

  /**
   * Performs a call of the control socket.
   * @param {string} name
   * @param {object} [fields]
   * @returns {Promise<object>} Its result.
   */
  call(name, fields = {}) {
    return this.request("/api/call", { call: name, fields });
  }

  /**
   * @param {string} path
   * @param {object} [request]
   * @returns {Promise<object>}
   */
  async request(path, request = {}) {
    let response;
    let answer;
    try {
      response = await fetch(path, {
        method: "POST",
        headers: { ...this.headers, "Content-Type": "application/json" },
        body: JSON.stringify({ store: this.store, ...request }),
      });
      answer = await response.json();
    } catch {
      throw new UnreachableError("The console does not answer.");
    }
    if (response.status === 401 || response.status === 403) throw new NoAccessError(answer.error.text);
    if (answer.error) throw new CallError(answer.error.code, answer.error.text);
    return answer.result;
  }
}

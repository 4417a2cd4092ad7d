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

export class Server {
  /** @param {number} store The number of the store among those of the console. */
  constructor(store) {
    this.store = store;
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
        headers: { "Content-Type": "application/json" },
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

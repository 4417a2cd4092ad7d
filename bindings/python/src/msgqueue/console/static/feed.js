/** The events of the queue, while the page is visible: by them the console knows that it is. */

const RESTART = 1_000;

export class Feed {
  /**
   * @param {import("./server.js").Server} server
   * @param {(events: object[]) => void} receive Takes a batch of events.
   * @param {() => void} lose The console does not answer, for now.
   */
  constructor(server, receive, lose) {
    Object.assign(this, { server, receive, lose });
    /** Ends the request; null: there is none. */
    this.request = null;
    document.addEventListener("visibilitychange", () => this.follow());
    // A page that the browser kept and shows again.
    addEventListener("pageshow", () => this.follow());
    addEventListener("pagehide", () => this.end());
    this.follow();
  }

  /** Listens while the page is visible. A browser permits few connections, and hidden pages need none. */
  follow() {
    if (document.hidden) this.end();
    else if (!this.request) this.begin();
  }

  async begin() {
    const request = new AbortController();
    this.request = request;
    try {
      await this.read(request.signal);
    } catch {
      // The connection has ended; what that means is asked below.
    }
    if (this.request !== request) return;
    this.lose();
    setTimeout(() => {
      if (this.request === request) this.request = null;
      this.follow();
    }, RESTART);
  }

  /** Reads server-sent events; an EventSource cannot send the key. */
  async read(signal) {
    const path = `/api/events?store=${this.server.store}`;
    const response = await fetch(path, { headers: this.server.headers, signal });
    if (!response.ok) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = `${rest}${value}`.split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data: ")) this.receive(JSON.parse(line.slice(6)));
    }
  }

  end() {
    this.request?.abort();
    this.request = null;
  }
}

/** The events of the queue, while the page is visible: by them the console knows that it is. */

const RESTART = 2_000;

export class Feed {
  /**
   * @param {number} store
   * @param {(events: object[]) => void} receive Takes a batch of events.
   * @param {() => void} lose The console does not answer, for now.
   */
  constructor(store, receive, lose) {
    this.address = `/api/events?store=${store}`;
    this.receive = receive;
    this.lose = lose;
    this.source = null;
    document.addEventListener("visibilitychange", () => this.follow());
    // A page that the browser kept and shows again.
    addEventListener("pageshow", () => this.follow());
    addEventListener("pagehide", () => this.end());
    this.follow();
  }

  /** Listens while the page is visible. A browser permits few connections, and hidden pages need none. */
  follow() {
    if (document.hidden) this.end();
    else if (!this.source) this.begin();
  }

  begin() {
    const source = new EventSource(this.address);
    this.source = source;
    source.onmessage = (message) => this.receive(JSON.parse(message.data));
    source.onerror = () => {
      this.lose();
      if (source.readyState !== EventSource.CLOSED || this.source !== source) return;
      // The browser does not try again by itself.
      this.source = null;
      setTimeout(() => this.follow(), RESTART);
    };
  }

  end() {
    this.source?.close();
    this.source = null;
  }
}

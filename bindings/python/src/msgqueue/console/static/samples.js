/** How many messages were sent and enqueued per second, sampled while the page is visible. */

/** How often the numbers are read, in milliseconds, and how many samples are kept: five minutes. */
const INTERVAL = 2_000;
export const ROOM = 150;

export class Samples extends EventTarget {
  /**
   * Event: "change".
   * @param {import("./queue.js").Queue} queue
   */
  constructor(queue) {
    super();
    this.queue = queue;
    /** @type {{sent: number, enqueued: number}[]} */
    this.rates = [];
    /** The statistics that were read last; null at the beginning. */
    this.statistics = null;
    this.readAt = 0;
    this.isReading = false;
    setInterval(() => this.queue.connection === "open" && !document.hidden && this.read(), INTERVAL);
    this.read();
  }

  async read() {
    if (this.isReading) return;
    this.isReading = true;
    try {
      this.note(await this.queue.server.call("stats"), performance.now());
    } catch (problem) {
      this.queue.note(problem);
    } finally {
      this.isReading = false;
    }
  }

  note(statistics, now) {
    const last = this.statistics;
    const seconds = (now - this.readAt) / 1000;
    // A queue that was opened again counts from zero.
    if (last?.opened_ms === statistics.opened_ms && seconds > 0) {
      const rate = (name) => Math.max(statistics[name] - last[name], 0) / seconds;
      this.rates.push({ sent: rate("sent"), enqueued: rate("enqueued") });
      if (this.rates.length > ROOM) this.rates.shift();
    }
    [this.statistics, this.readAt] = [statistics, now];
    this.dispatchEvent(new CustomEvent("change"));
  }
}

/**
 * The messages of a long list, of which only a part is loaded.
 *
 * The queue gives pages behind a sequence and knows no row numbers. One contiguous part of the list is kept. It
 * grows at both ends while the person scrolls. Far away from it a new part begins at an estimated place: sequences
 * grow with the order, mostly by one. When a part reaches an end of the list, its row numbers become exact.
 */

const PAGE = 100;
/** Rows that are kept on each side of those in view. */
const KEPT = 400;

/** The longest list that is shown: browsers limit the height of a page. */
export const LONGEST = 120_000;

export class MessagePages extends EventTarget {
  /**
   * Events: "change" (rows or total changed), "shift" (`detail`: by how much the numbers of all rows grew), "problem".
   * @param {import("./server.js").Server} server
   * @param {object} filter Of `filterOf`.
   */
  constructor(server, filter) {
    super();
    this.server = server;
    this.filter = filter;
    /** Number of rows of the whole list. */
    this.total = 0;
    /** The loaded rows, and the number of the first of them. */
    this.rows = [];
    this.first = 0;
    this.isLoaded = false;
    /** The messages at the ends of the whole list. */
    this.firstMessage = null;
    this.lastMessage = null;
    this.wanted = { from: 0, to: PAGE };
    this.isStale = true;
    this.working = null;
  }

  /**
   * @param {number} index
   * @returns {object|undefined} The message in that row, if it is loaded.
   */
  get(index) {
    return this.rows[index - this.first];
  }

  /**
   * @param {string} id
   * @returns {object|undefined} The message, if its row is loaded.
   */
  find(id) {
    return this.rows.find((message) => message.id === id);
  }

  /** Loads the rows from `from` to before `to`, and "change" follows. */
  want(from, to) {
    this.wanted = { from: Math.max(from, 0), to };
    return this.work();
  }

  /** Loads what is in view again, because messages changed. */
  reload() {
    this.isStale = true;
    return this.work();
  }

  /** Removes a row at once, before the list is loaded again. */
  drop(ids) {
    const kept = this.rows.filter(({ id }) => !ids.has(id));
    if (kept.length === this.rows.length) return;
    this.total -= this.rows.length - kept.length;
    this.rows = kept;
    this.changed();
  }

  work() {
    this.working ??= this.loadAll().finally(() => {
      this.working = null;
    });
    return this.working;
  }

  async loadAll() {
    try {
      while (await this.loadNext());
    } catch (problem) {
      this.dispatchEvent(new CustomEvent("problem", { detail: problem }));
    }
  }

  /** Loads one page that is needed. Returns whether it did. */
  async loadNext() {
    if (this.isStale) {
      this.isStale = false;
      await this.refresh();
      return true;
    }
    const from = Math.min(this.wanted.from, Math.max(this.total - 1, 0));
    const to = Math.min(this.wanted.to, this.total);
    const end = this.first + this.rows.length;
    if (from >= to || (from >= this.first && to <= end)) return false;
    const isNear = this.rows.length > 0 && from < end + PAGE && to > this.first - PAGE;
    const before = [this.first, this.rows.length, this.total].join();
    if (!isNear) await this.jump(from);
    else if (from < this.first) await this.growBackward();
    else await this.growForward();
    this.trim();
    this.changed();
    // Without progress the list is as the queue says, and not as it was counted.
    return before !== [this.first, this.rows.length, this.total].join();
  }

  async refresh() {
    const [total, newest] = await Promise.all([this.count(), this.page({ isBackward: true, limit: 1 })]);
    this.total = newest.length === 0 ? 0 : total;
    this.lastMessage = newest[0] ?? null;
    const length = Math.min(Math.max(this.wanted.to - this.wanted.from, PAGE), 1000);
    const anchor = this.get(this.wanted.from);
    if (this.wanted.from === 0 || !anchor) {
      this.first = 0;
      this.rows = await this.page({ limit: length });
    } else {
      this.first = this.wanted.from;
      this.rows = await this.page({ ...this.behind(anchor, -1), limit: length });
    }
    if (this.first === 0) this.firstMessage = this.rows[0] ?? null;
    this.settle(length);
    this.isLoaded = true;
    this.changed();
  }

  async growForward() {
    const page = await this.page({ ...this.behind(this.rows.at(-1)), limit: PAGE });
    this.rows = [...this.rows, ...page];
    if (page.length < PAGE) this.total = this.first + this.rows.length;
    else this.total = Math.max(this.total, this.first + this.rows.length);
  }

  async growBackward() {
    const page = await this.page({ ...this.behind(this.rows[0]), limit: PAGE, isBackward: true });
    this.rows = [...page.reverse(), ...this.rows];
    this.renumber(page.length < PAGE ? 0 : Math.max(this.first - page.length, 1), this.first - page.length);
  }

  async jump(index) {
    if (index + PAGE >= this.total) {
      this.rows = (await this.page({ isBackward: true, limit: PAGE })).reverse();
      this.first = Math.max(this.total - this.rows.length, 0);
    } else if (index < PAGE) {
      this.rows = await this.page({ limit: PAGE });
      this.first = 0;
    } else {
      const { time } = this.filter;
      const [from, to] = [this.firstMessage, this.lastMessage].map((message) => message?.[time ?? "sequence"] ?? 0);
      const place = Math.floor(from + ((to - from) * index) / Math.max(this.total - 1, 1));
      this.rows = await this.page({ ...(time ? { after_time_ms: place } : { after: Math.max(place - 1, 0) }), limit: PAGE });
      this.first = index;
    }
    this.settle(PAGE);
  }

  /** After rows were loaded anew: a page that is not full ends the list. */
  settle(length) {
    if (this.rows.length < length) {
      const first = Math.max(this.total - this.rows.length, 0);
      if (this.first === 0) this.total = this.rows.length;
      else this.first = first;
    } else {
      this.total = Math.max(this.total, this.first + this.rows.length);
    }
  }

  /** Gives the loaded rows the number that they have, instead of the one that was estimated. */
  renumber(first, estimated) {
    this.first = first;
    const shift = first - estimated;
    if (shift === 0) return;
    this.total = Math.max(this.total, first + this.rows.length);
    this.wanted = { from: this.wanted.from + shift, to: this.wanted.to + shift };
    this.dispatchEvent(new CustomEvent("shift", { detail: shift }));
  }

  trim() {
    const before = Math.max(this.wanted.from - KEPT - this.first, 0);
    if (before > PAGE) {
      this.rows = this.rows.slice(before);
      this.first += before;
    }
    this.rows.length = Math.min(this.rows.length, Math.max(this.wanted.to + KEPT - this.first, PAGE));
  }

  /** How many messages there are, or may be. */
  async count() {
    const { conversation, statuses, count } = this.filter;
    if (count) return count(this.server);
    const counts = await this.server.call("counts", conversation === null ? {} : { conversation });
    return statuses.reduce((sum, status) => sum + counts[status], 0);
  }

  /** Where the page behind a message begins; with the shift -1 the page that begins with it. */
  behind(message, shift = 0) {
    const { time, isDescending } = this.filter;
    const after = message.sequence + (isDescending ? -shift : shift);
    return time ? { after, after_time_ms: message[time] } : { after };
  }

  async page({ isBackward = false, ...place }) {
    const { conversation, statuses, fields, isDescending, until } = this.filter;
    const isNewestFirst = isBackward !== isDescending;
    const start = until && isNewestFirst ? { after_time_ms: until } : {};
    const { messages } = await this.server.call("list", {
      ...{ ...fields, ...start, ...place, statuses, reasons: true, newest_first: isNewestFirst },
      ...(conversation !== null && { conversation }),
    });
    return until ? messages.filter(({ time_ms: time }) => time <= until) : messages;
  }

  changed() {
    this.dispatchEvent(new CustomEvent("change"));
  }
}

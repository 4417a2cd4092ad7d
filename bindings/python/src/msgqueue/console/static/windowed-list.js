/**
 * A list of any length, of which only the rows in view are in the page. All rows have one height.
 *
 * Keyboard: one row is active; Up, Down, Page Up, Page Down, Home and End move it, Tab goes to the controls in it.
 */

import { focusOn, h, setAttribute } from "./dom.js";
import { LONGEST } from "./message-pages.js";

/** Rows above and below those in view. */
const AROUND = 6;

/**
 * @typedef {object} Row
 * @property {HTMLElement} element Contains controls with `data-control`; the first of them opens the row.
 * @property {(message: object) => void} update
 */

export class WindowedList {
  constructor(pages, label, makeRow) {
    Object.assign(this, { pages, makeRow });
    /** The rows in the page, by the id of their message. */
    this.rows = new Map();
    this.spare = [];
    this.active = 0;
    /** The control to focus when its row is loaded. */
    this.pendingFocus = null;
    this.frame = 0;
    this.space = h("div", { class: "window-space", role: "list", "aria-label": label });
    this.element = h("div", { class: "window" }, this.space);
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.move(event));
    this.element.addEventListener("focusin", (event) => this.activate(event.target));
    this.onChange = () => this.schedule();
    this.onShift = (event) => {
      this.active += event.detail;
      this.element.scrollTop += event.detail * this.rowHeight;
    };
    pages.addEventListener("change", this.onChange);
    pages.addEventListener("shift", this.onShift);
    this.resizing = new ResizeObserver(() => this.measure());
    this.resizing.observe(this.element);
    this.rowHeight = 72;
  }

  /** Ends the list; its element is of no use any more. */
  end() {
    this.resizing.disconnect();
    cancelAnimationFrame(this.frame);
    this.pages.removeEventListener("change", this.onChange);
    this.pages.removeEventListener("shift", this.onShift);
  }

  /** @returns {number} Rows that can be shown. */
  get length() {
    return Math.min(this.pages.total, LONGEST);
  }

  measure() {
    const height = Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row-height"));
    const top = this.element.scrollTop / this.rowHeight;
    if (height && height !== this.rowHeight) {
      this.rowHeight = height;
      this.element.scrollTop = top * height;
    }
    this.schedule();
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const { rowHeight, length } = this;
    const from = Math.max(Math.floor(this.element.scrollTop / rowHeight) - AROUND, 0);
    const to = Math.min(Math.ceil((this.element.scrollTop + this.element.clientHeight) / rowHeight) + AROUND, length);
    this.space.style.height = `${length * rowHeight}px`;
    this.active = Math.min(this.active, Math.max(length - 1, 0));
    // Tab leads to a row in view, wherever the mouse has scrolled.
    if (!this.pendingFocus && !this.space.contains(document.activeElement)) this.active = this.nearestInView();
    this.pages.want(from, to);
    this.place(from, to);
    this.focusPending();
  }

  /** Puts the rows of the messages from `from` to before `to` into the page, and removes others. */
  place(from, to) {
    const shown = new Map();
    for (let index = from; index < to; index += 1) {
      const message = this.pages.get(index);
      if (message) shown.set(message.id, { index, message });
    }
    for (const [id, row] of this.rows) {
      if (shown.has(id)) continue;
      // The row with the focus stays while it scrolls out of view, but not when its message is gone.
      const index = row.element.contains(document.activeElement) ? this.indexOf(id) : -1;
      if (index >= 0) shown.set(id, { index, message: this.pages.get(index) });
      else this.release(id, row);
    }
    for (const [id, { index, message }] of shown) this.show(id, index, message);
  }

  show(id, index, message) {
    let row = this.rows.get(id);
    if (!row) {
      row = this.spare.pop() ?? this.makeRow();
      this.rows.set(id, row);
    }
    row.update(message);
    row.index = index;
    const { element } = row;
    element.style.transform = `translateY(${index * this.rowHeight}px)`;
    setAttribute(element, "aria-posinset", index + 1);
    setAttribute(element, "aria-setsize", this.length);
    const isActive = index === this.active;
    for (const control of element.querySelectorAll("[data-control]")) control.tabIndex = isActive ? 0 : -1;
    if (!element.isConnected) this.space.append(element);
  }

  release(id, row) {
    const hadFocus = row.element.contains(document.activeElement);
    const control = row.element.dataset.left ?? document.activeElement?.dataset?.control;
    this.rows.delete(id);
    row.element.remove();
    this.spare.push(row);
    // The row that takes its place gets the focus.
    if (hadFocus && this.length > 0) this.pendingFocus = { index: this.active, control };
    else if (hadFocus) focusOn(null);
  }

  /** The number of the row in view that is nearest to the active one. */
  nearestInView() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.ceil(scrollTop / this.rowHeight);
    const last = Math.max(Math.floor((scrollTop + clientHeight) / this.rowHeight) - 1, first);
    return Math.max(Math.min(Math.max(this.active, first), last, this.length - 1), 0);
  }

  indexOf(id) {
    const index = this.pages.rows.findIndex((message) => message.id === id);
    return index < 0 ? -1 : this.pages.first + index;
  }

  // ---------------------------------------------------------------- keyboard

  activate(target) {
    for (const row of this.rows.values()) {
      if (!row.element.contains(target)) continue;
      if (row.index === this.active) return;
      this.active = row.index;
      this.schedule();
    }
  }

  move(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Tab") {
      this.enterView(event);
      return;
    }
    const page = Math.max(Math.floor(this.element.clientHeight / this.rowHeight) - 1, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const index = Math.min(Math.max(this.active + step, 0), this.length - 1);
    this.pendingFocus = { index, control: document.activeElement?.dataset?.control };
    this.active = index;
    this.reveal(index);
    // Now, so that the next key already acts on the new row.
    this.draw();
  }

  /** Leads Tab from a row that was scrolled out of view to one in view. */
  enterView(event) {
    const index = this.nearestInView();
    if (Math.abs(index - this.active) < 2) return;
    event.preventDefault();
    this.active = index;
    this.pendingFocus = { index };
    this.draw();
  }

  reveal(index) {
    const [top, height] = [index * this.rowHeight, this.element.clientHeight];
    const { scrollTop } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + height) this.element.scrollTop = top + this.rowHeight - height;
  }

  focusPending() {
    if (!this.pendingFocus) return;
    const { index, control } = this.pendingFocus;
    const row = [...this.rows.values()].find((each) => each.index === Math.min(index, this.length - 1));
    if (!row) return;
    this.pendingFocus = null;
    const controls = [...row.element.querySelectorAll("[data-control]")].filter((each) => !each.hidden);
    (controls.find((each) => each.dataset.control === control) ?? controls[0])?.focus({ preventScroll: true });
  }
}

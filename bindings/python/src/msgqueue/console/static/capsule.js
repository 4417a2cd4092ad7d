/** The capsule in the header: offline, sending, paused; and the kind of link. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { count, LINKS } from "./words.js";

const LINK_ICONS = { wifi: "wifi", cellular: "cellular", ethernet: "ethernet", other: "link", none: "offline" };

export class Capsule {
  constructor(element, queue) {
    Object.assign(this, { element, queue, shown: "" });
    queue.addEventListener("state", () => this.update());
  }

  update() {
    const parts = this.parts();
    const shown = JSON.stringify(parts);
    if (shown === this.shown) return;
    this.shown = shown;
    fill(this.element, ...parts.map(({ kind, name, text }) => h("span", { class: `capsule ${kind}` }, icon(name), h("span", {}, text))));
  }

  parts() {
    const { connection, state, counts } = this.queue;
    if (connection !== "open" || !state) return [];
    const parts = [];
    const status = this.status(state, counts);
    if (status) parts.push(status);
    if (state.connectivity === "online" && state.link !== "none") {
      parts.push({
        kind: "link",
        name: LINK_ICONS[state.link] ?? "link",
        text: `${LINKS[state.link] ?? "Connected"}${state.metered ? ", metered" : ""}`,
      });
    }
    return parts;
  }

  status(state, counts) {
    if (state.connectivity === "offline") return { kind: "red", name: "offline", text: "Offline" };
    const waiting = counts.queued + counts.sending;
    if (counts.sending > 0 || (state.draining && waiting > 0)) {
      const moving = state.draining && !state.paused ? waiting : counts.sending;
      return { kind: "orange", name: "arrow-up", text: `Sending ${count(moving)} message${moving === 1 ? "" : "s"}…` };
    }
    // How many wait, the tab of the queue says.
    return state.paused ? { kind: "grey", name: "pause", text: "Paused" } : null;
  }
}

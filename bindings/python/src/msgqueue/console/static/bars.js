/** The bars below the header: offline, paused, closed, trouble. They stay in view. */

import { fill, focusOn, h } from "./dom.js";
import { icon } from "./icons.js";
import { queueLink } from "./router.js";

const OFFLINE = "You're offline.";

export class Bars {
  constructor(element, queue, actions, isOpenedHere) {
    Object.assign(this, { element, queue, actions, isOpenedHere });
    // The region is there before its content, so that a screen reader announces it.
    this.region = h("div", { role: "status", "aria-live": "polite" });
    element.append(this.region);
    this.shown = "";
    queue.addEventListener("state", () => this.update());
  }

  update() {
    const bars = this.bars();
    const shown = JSON.stringify(bars.map(({ key }) => key));
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = this.region.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    fill(this.region, ...bars.map(({ make }) => make()));
    if (focused) focusOn(this.region.querySelector(`[data-action="${focused}"]`));
  }

  /** What is to be said, the most important first. `key` changes with the content. */
  bars() {
    const { queue } = this;
    const { connection, state, scope } = queue;
    if (connection === "no-access") {
      return [
        bar(
          "bad",
          "warning",
          "This page has no access any more.",
          "The console was started again, or admitted many others. Open the address that it printed.",
        ),
      ];
    }
    if (connection === "unreachable") {
      return [
        bar(
          "grey",
          "offline",
          "The console does not answer.",
          "What you see was loaded before. The page goes on if the console answers again. One that was started again gives a new address.",
        ),
      ];
    }
    if (connection === "closed") {
      return [bar("grey", "link", "The queue was closed.", "The page goes on when a program opens it again.")];
    }
    if (!state) return [];
    const bars = [];
    if (state.storage_trouble) bars.push(bar("bad", "warning", "The store cannot be written.", state.text));
    if (this.isOpenedHere) {
      bars.push(bar("grey", "info", "No other program has this store open.", "Messages can be read, edited and deleted. Nothing is sent."));
    } else if (!state.has_transport) {
      bars.push(bar("grey", "info", "The program that has this store open sends nothing.", "It has no transport."));
    }
    if (scope.banner.startsWith(OFFLINE)) bars.push(this.offline());
    else if (state.paused) bars.push(this.paused());
    return bars;
  }

  offline() {
    const { queue, actions } = this;
    const { conversation, counts, banner } = queue.scope;
    // "You're offline. 5 messages queued." is a title and a line.
    const line = banner.slice(OFFLINE.length).trim();
    const hasQueued = counts.queued > 0 && queue.canSend;
    const hasUnsent = counts.queued > 0 || counts.failed > 0;
    const isBusy = queue.running.has("drain");
    return bar(
      "amber offline",
      "warning",
      line.startsWith("Messages will") ? "" : "You're offline",
      line.startsWith("Messages will") ? banner : line,
      hasQueued && {
        action: "send-all",
        label: "Send All",
        kind: "orange",
        isBusy,
        run: () => actions.sendAll(conversation),
      },
      hasUnsent && { action: "review", label: "Review", link: queueLink(conversation) },
    );
  }

  paused() {
    return bar(
      "grey",
      "pause",
      "Sending is paused.",
      this.queue.scope.banner.replace("Sending is paused.", "").trim(),
      { action: "resume", label: "Resume", kind: "orange", isBusy: this.queue.running.has("resume"), run: () => this.actions.resume(null) },
    );
  }
}

function bar(kind, iconName, title, line, ...buttons) {
  const shown = buttons.filter(Boolean);
  const make = () =>
    h(
      "div",
      { class: `bar ${kind}` },
      icon(iconName),
      h("div", { class: "bar-text" }, title && h("strong", {}, title), line && h("span", {}, line)),
      shown.length > 0 && h("div", { class: "bar-buttons" }, ...shown.map(button)),
    );
  return { key: [kind, title, line, shown.map(({ action, isBusy, link }) => [action, isBusy, link])], make };
}

function button({ action, label, kind = "", link, isBusy = false, run }) {
  if (link) return h("a", { class: `button ${kind}`, href: link, "data-action": action }, label);
  return h("button", { type: "button", class: kind, "data-action": action, "aria-disabled": isBusy ? "true" : null, onclick: run }, label);
}

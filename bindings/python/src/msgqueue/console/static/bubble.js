/** A message in its conversation. */

import { askAboutFailed } from "./failed-dialog.js";
import { fill, foreign, h, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { openMessage } from "./message-sheet.js";
import { timeElement } from "./times.js";
import { bytes, conversationName, failureSentence, stillFailing } from "./words.js";

/** Characters that are shown; the sheet of the message shows all. */
const LONGEST = 2_000;
const TICKS = { sent: "✓ Sent", delivered: "✓✓ Delivered", read: "✓✓ Read" };
/** Reasons that the conversation itself does not show. */
const SAID = new Set(["retrying", "scheduled", "metered", "rate", "holding", "expired"]);

export class Bubble {
  constructor(app, message) {
    this.app = app;
    this.shown = "";
    this.element = h("li", { class: `bubble ${message.sender === null ? "own" : "received"}` });
    this.update(message, null);
  }

  /**
   * @param {object} message
   * @param {object|null} explanation Why it waits, if that is known.
   */
  update(message, explanation) {
    this.message = message;
    const { queue } = this.app;
    const status = queue.statusOf(message);
    const willSend = queue.state?.mode === "auto" && queue.isOffline;
    const again = queue.failedAgain.get(message.id);
    const shown = JSON.stringify([message, status, willSend, explanation, again]);
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    setAttribute(this.element, "data-id", message.id);
    setAttribute(this.element, "data-status", status);
    fill(
      this.element,
      message.sender !== null && h("div", { class: "sender" }, foreign(conversationName(message.sender))),
      this.text(message),
      h(
        "div",
        { class: "bubble-foot" },
        timeElement(message.time_ms),
        message.sender === null && this.status(status, willSend, explanation),
        this.more(),
      ),
      status === "failed" &&
        message.failure &&
        h("p", { class: "sentence" }, `${stillFailing(message, again)}${failureSentence(message)}`),
    );
    if (focused)
      (this.element.querySelector(`[data-action="${focused}"]`) ?? this.element.querySelector("button")).focus();
  }

  text({ body, body_size: size, preview }) {
    if (typeof body !== "string")
      return h("p", { class: "bubble-text quiet" }, preview ? foreign(preview) : `${bytes(size)} that are not text`);
    return h("p", { class: "bubble-text", dir: "auto" }, body.length > LONGEST ? `${body.slice(0, LONGEST)}…` : body || "(empty)");
  }

  status(status, willSend, explanation) {
    if (status === "failed") {
      return h(
        "button",
        { type: "button", class: "link red", "data-action": "failed", onclick: () => askAboutFailed(this.app.actions, this.message) },
        icon("alert"),
        "Failed – retry",
      );
    }
    if (status === "sending") return h("span", { class: "status blue" }, icon("arrow-up"), "Sending…");
    if (status === "queued")
      return h("span", { class: "status orange" }, icon("warning"), queuedText(willSend, explanation));
    return h("span", { class: `status ${status === "read" ? "blue" : ""}` }, TICKS[status]);
  }

  more() {
    return h(
      "button",
      {
        type: "button",
        class: "plain small",
        "data-action": "details",
        "aria-label": "Details of this message",
        title: "Details",
        onclick: () => openMessage(this.app, this.message.id),
      },
      icon("info"),
    );
  }
}

function queuedText(willSend, explanation) {
  const reason = explanation?.reason;
  if (reason === "behind" || reason === "blocked") return "Queued · Behind another message";
  if (willSend) return "Queued · will send when online";
  return SAID.has(reason) ? `Queued · ${explanation.text}` : "Queued";
}

/** The toast of mode ask: connected, send what is queued? At most one is shown. */

import { fill, focusOn, h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { queueLink } from "./router.js";
import { bytes, plural, relativeTime } from "./words.js";

export class Toast {
  /**
   * @param {HTMLElement} region An element with `aria-live`.
   * @param {import("./queue.js").Queue} queue
   * @param {import("./actions.js").Actions} actions
   * @param {import("./router.js").Router} router
   */
  constructor(region, queue, actions, router) {
    Object.assign(this, { region, queue, actions, router });
    this.expires = 0;
    this.timer = 0;
    /** The prompt that was answered here: it is not shown again. */
    this.answered = 0;
    /** Whether a yes takes the failed messages along. */
    this.withFailed = false;
    /** The elements whose texts follow the prompt. */
    this.texts = null;
    queue.addEventListener("state", () => this.update());
    queue.addEventListener("event:prompt_withdrawn", () => this.hide());
  }

  /** Shows the prompt of the queue's state, or its new numbers, or hides the toast when there is none. */
  update() {
    const { connection, state } = this.queue;
    const prompt = connection === "open" ? state?.prompt : null;
    if (!prompt || prompt.expires_ms <= Date.now()) this.hide();
    else if (prompt.expires_ms === this.expires) this.follow(prompt);
    else if (prompt.expires_ms !== this.answered) this.show(prompt);
  }

  /** Shows the numbers of the prompt that is shown already. Its timer and the focus stay. */
  follow(prompt) {
    const [, ...question] = sentences(prompt.text);
    setText(this.texts.question, question.join(" "));
    setText(this.texts.digest, digest(prompt));
    this.withFailed = prompt.failed > 0;
  }

  show(prompt) {
    // The timer of an earlier prompt must not close this one.
    clearTimeout(this.timer);
    this.expires = prompt.expires_ms;
    this.timer = setTimeout(() => this.hide(), prompt.expires_ms - Date.now());
    const [title] = sentences(prompt.text);
    this.texts = { question: h("span"), digest: h("small") };
    this.follow(prompt);
    fill(
      this.region,
      h(
        "section",
        { class: "toast", "aria-label": "Connected" },
        icon("check-circle"),
        h(
          "div",
          { class: "toast-text" },
          h("strong", {}, title.replace(/\.$/, "")),
          this.texts.question,
          this.texts.digest,
        ),
        h(
          "div",
          { class: "toast-buttons" },
          h("button", { type: "button", "data-action": "review-first", onclick: () => this.review() }, "Review first"),
          h("button", { type: "button", class: "green", "data-action": "send-all-yes", onclick: () => this.accept() }, "Yes, send all"),
        ),
      ),
    );
  }

  hide() {
    clearTimeout(this.timer);
    this.expires = 0;
    const hadFocus = this.region.contains(document.activeElement);
    if (this.region.firstChild) fill(this.region);
    if (hadFocus) focusOn(null);
  }

  accept() {
    this.answered = this.expires;
    this.hide();
    this.actions.sendAll(null, this.withFailed);
  }

  async review() {
    this.answered = this.expires;
    this.hide();
    this.router.go(queueLink());
    await this.actions.once("prompt", async () => {
      await this.actions.server.call("withdraw_prompt");
    });
  }
}

function sentences(text) {
  return text.split(/(?<=\.) /);
}

function digest({ bytes: size, oldest_ms: oldest, conversations }) {
  const age = relativeTime(oldest, Date.now()).toLowerCase();
  return `${bytes(size)}, oldest ${age}, ${plural(conversations, "conversation")}`;
}

/** The sheet of one message: what it is, why it waits, and what was attempted. */

import { badge, setBadge } from "./badge.js";
import { openDialog } from "./dialogs.js";
import { button, fill, foreign, h } from "./dom.js";
import { icon } from "./icons.js";
import { oneByOne } from "./one-by-one.js";
import { CallError } from "./server.js";
import { conversationLink } from "./router.js";
import { timeElement } from "./times.js";
import {
  bytes,
  conversationName,
  duration,
  exactTime,
  failureSentence,
  isText,
  kindLabel,
  plural,
  stillFailing,
  timeUntil,
  visible,
} from "./words.js";

/** Characters of a body that are shown at once. */
const LONGEST_BODY = 20_000;

const OUTCOMES = {
  under_way: "In progress",
  sent: "Sent",
  retry: "Failed, to be retried",
  rejected: "Refused",
  unknown: "Interrupted",
};
const ARRIVALS = { no: "Did not arrive", yes: "Arrived", perhaps: "May have arrived" };

/** Opens the sheet of a message and keeps it current. */
export async function openMessage(app, id) {
  const { server, queue, actions } = app;
  const content = h("div", { class: "sheet-content" });
  const dialog = openDialog({ title: "Message", kind: "sheet", content: [content] });
  let shown = "";

  const load = oneByOne(async () => {
    try {
      const [message, explanation, { attempts }] = await Promise.all([
        server.call("get", { message: id }),
        server.call("explain", { message: id }),
        server.call("attempts", { message: id }),
      ]);
      const status = queue.statusOf(message);
      const version = JSON.stringify([message, explanation, attempts, status]);
      if (version === shown) return;
      shown = version;
      const focused = content.contains(document.activeElement) ? document.activeElement.dataset.action : null;
      fill(content, ...parts(message, status, explanation, attempts));
      if (focused)
        (content.querySelector(`[data-action="${focused}"]`) ?? dialog.element.querySelector(".dialog-head button")).focus();
    } catch (problem) {
      const isGone = problem instanceof CallError && problem.code === "NOT_FOUND";
      if (!isGone && !(problem instanceof CallError)) queue.note(problem);
      fill(content, h("p", { class: "gone" }, isGone ? "This message is gone." : problem.message));
      shown = "";
    }
  });

  const parts = (message, status, explanation, attempts) => [
    head(app.titles, message, status),
    reason(message, status, explanation),
    buttons(message, status, explanation.reason !== "paused"),
    body(message),
    facts(message),
    ledger(attempts),
  ];

  const buttons = (message, status, canGo) => {
    const isFree = status === "queued" || status === "failed";
    if (!isFree) return null;
    return h(
      "div",
      { class: "sheet-buttons" },
      status === "queued" && queue.canSend && canGo && button("send", "Send now", () => actions.sendNow(message)),
      status === "failed" && button("retry", "Retry", () => actions.retry(message)),
      button("pencil", "Edit", () => actions.edit(message)),
      button("bin", "Delete", async () => {
        if (await actions.remove(message)) dialog.close();
      }),
    );
  };

  const reason = (message, status, { reason: code, behind, until_ms: until, text }) => {
    if (status === "failed" && message.failure) {
      const again = stillFailing(message, queue.failedAgain.get(id));
      return h("p", { class: "sentence red" }, icon("alert"), h("span", {}, `${again}${failureSentence(message)}`));
    }
    if (code === "none" || status === "sending") return null;
    return h(
      "div",
      { class: "sentence", "data-reason": code },
      icon("clock"),
      h(
        "div",
        {},
        h("p", {}, code === "behind" || code === "blocked" ? "Behind another message. " : "", text),
        until > 0 && h("p", { class: "quiet" }, `Until ${exactTime(until)}, ${timeUntil(until, Date.now())}`),
        code === "paused" && resume(message),
        behind &&
          h(
            "button",
            { type: "button", class: "link", "data-action": "behind", onclick: () => openMessage(app, behind) },
            "Show that message",
          ),
      ),
    );
  };

  /** Ends the pause that holds the message: that of the queue, or of its conversation. */
  const resume = ({ conversation }) =>
    button("play", queue.state?.paused ? "Resume the queue" : "Resume this conversation", () =>
      actions.resume(queue.state?.paused ? null : conversation), { "data-action": "resume" });

  const follow = ({ detail: { everything, ids, removed } }) => {
    // What it waits for may have changed with any other message.
    if (everything || ids.size > 0 || removed.size > 0) load();
  };
  queue.addEventListener("messages", follow);
  const follower = () => load();
  queue.addEventListener("event:paused", follower);
  queue.addEventListener("event:connectivity", follower);
  await load();
  await dialog.closed;
  queue.removeEventListener("messages", follow);
  queue.removeEventListener("event:paused", follower);
  queue.removeEventListener("event:connectivity", follower);
}

function head(titles, message, status) {
  const state = badge();
  setBadge(state, status);
  return h(
    "p",
    { class: "sheet-head" },
    state,
    message.sender !== null && h("span", {}, "from ", foreign(conversationName(message.sender), "name")),
    h(
      "a",
      { href: conversationLink(message.conversation), onclick: (event) => event.currentTarget.closest("dialog").close() },
      titles.element(message.conversation, "name"),
    ),
    timeElement(message.time_ms),
  );
}

function body(message) {
  if (!isText(message))
    return h("p", { class: "body quiet" }, `${bytes(message.body_size)} that are not text.`);
  if (message.body === "") return h("p", { class: "body quiet" }, "(empty)");
  const text = h(
    "pre",
    { class: "body", dir: "auto", tabindex: 0, "aria-label": "Text of the message" },
    message.body.slice(0, LONGEST_BODY),
  );
  if (message.body.length <= LONGEST_BODY) return text;
  const rest = h(
    "button",
    {
      type: "button",
      class: "link",
      onclick: () => {
        text.textContent = message.body;
        rest.remove();
      },
    },
    `Show all ${bytes(message.body_size)}`,
  );
  return h("div", {}, text, rest);
}

function facts(message) {
  const rows = [
    ["Id", h("code", {}, foreign(visible(message.id)))],
    ["Conversation", foreign(conversationName(message.conversation))],
    ["Size", bytes(message.body_size)],
    ["Time", message.time_ms === message.created_ms ? null : time(message.time_ms)],
    ["Created", time(message.created_ms)],
    ["Edited", time(message.edited_ms)],
    ["Sent", time(message.sent_ms)],
    ["Delivered", time(message.delivered_ms)],
    ["Read", time(message.read_ms)],
    ["Not before", time(message.not_before_ms)],
    ["Expires", time(message.expires_at_ms)],
    ["Next attempt", time(message.next_attempt_ms)],
    ["Retries used", message.retries_used || null],
    ["Priority", message.priority || null],
    ["Link", message.unmetered_only ? "Unmetered only" : null],
    ...Object.entries(message.metadata).map(([key, value]) => [foreign(visible(key)), foreign(visible(value))]),
  ];
  return h(
    "dl",
    { class: "facts" },
    ...rows
      .filter(([, value]) => value !== null)
      .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

const time = (ms) => (ms === 0 ? null : exactTime(ms));

function ledger(attempts) {
  if (attempts.length === 0) return h("p", { class: "quiet" }, "Not attempted yet.");
  const rows = [...attempts]
    .reverse()
    .map((attempt) =>
      h(
        "li",
        { class: `attempt ${attempt.outcome}` },
        h(
          "div",
          { class: "attempt-head" },
          h("strong", {}, `${attempt.number}. ${OUTCOMES[attempt.outcome] ?? attempt.outcome}`),
          attempt.kind !== "none" && h("span", { class: "kind" }, kindLabel(attempt.kind)),
          attempt.code !== 0 && h("span", { class: "kind" }, `code ${attempt.code}`),
        ),
        h(
          "div",
          { class: "quiet" },
          [
            exactTime(attempt.started_ms),
            attempt.duration_ms >= 0 && duration(attempt.duration_ms),
            attempt.outcome !== "under_way" && ARRIVALS[attempt.arrival],
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        attempt.text && h("code", { class: "raw" }, foreign(attempt.text)),
      ),
    );
  return h("section", { class: "attempts" }, h("h3", {}, plural(attempts.length, "attempt")), h("ol", { reversed: true }, ...rows));
}

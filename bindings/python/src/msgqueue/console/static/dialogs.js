/** Dialogs: the browser keeps the focus inside, closes them by Escape, and gives the focus back. */

import { fill, focusOn, h, newId } from "./dom.js";
import { icon } from "./icons.js";

/**
 * Opens a dialog.
 * @param {object} parts
 * @param {string} parts.title
 * @param {string} [parts.kind] A class: "sheet" stands at the side.
 * @param {(Node|string|null)[]} parts.content
 * @returns {{element: HTMLDialogElement, closed: Promise<string>, close: (value?: string) => void}}
 */
export function openDialog({ title, kind = "", content }) {
  const id = newId();
  const element = h(
    "dialog",
    { class: kind, "aria-labelledby": id },
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { id }, title),
      h("button", { class: "plain", type: "button", "aria-label": "Close", onclick: () => element.close("") }, icon("close")),
    ),
    ...content,
  );
  // A click beside the dialog closes it.
  element.addEventListener("pointerdown", (event) => {
    if (event.target === element && isOutside(element, event)) element.close("");
  });
  const closed = new Promise((resolve) => {
    element.addEventListener("close", () => {
      placeRegions();
      element.remove();
      // What had the focus is gone, or hidden.
      if (document.activeElement === document.body) focusOn(fallback());
      resolve(element.returnValue);
    });
  });
  document.body.append(element);
  element.showModal();
  placeRegions();
  return { element, closed, close: (value = "") => element.close(value) };
}

/**
 * Asks a question and waits for the answer.
 * @param {object} question
 * @param {string} question.title
 * @param {(Node|string|null)[]} question.text Paragraphs.
 * @param {{value: string, label: string, kind?: string}[]} question.answers The last one stands at the end.
 * @returns {Promise<string>} The value of the answer; "" when it was closed without one.
 */
export async function ask({ title, text, answers }) {
  const foot = h("div", { class: "dialog-foot" });
  const dialog = openDialog({
    title,
    kind: "question",
    content: [...text.filter(Boolean).map((each) => (each instanceof Node ? each : h("p", {}, each))), foot],
  });
  fill(
    foot,
    ...answers.map(({ value, label, kind }) =>
      h("button", { type: "button", class: kind ?? "", "data-answer": value, onclick: () => dialog.close(value) }, label),
    ),
  );
  foot.querySelector('[data-answer="cancel"]')?.focus();
  return dialog.closed;
}

/** Asks whether something is to be deleted, and returns the answer. */
export async function isSure(title, ...text) {
  const answers = [{ value: "cancel", label: "Cancel" }, { value: "delete", label: "Delete", kind: "danger" }];
  return (await ask({ title, text, answers })) === "delete";
}

/** The dialog on top; null without one. */
const top = () => [...document.querySelectorAll("dialog[open]")].pop() ?? null;

/** Outside the dialog on top nothing can be read or pressed: the notices and the toast are in it. */
function placeRegions() {
  for (const id of ["toasts", "notices"]) {
    const region = document.getElementById(id);
    const place = top() ?? document.body;
    if (region.parentElement !== place) place.append(region);
  }
}

/** What gets the focus when that which had it before the dialog is gone: the row in its place. */
function fallback() {
  return (top() ?? document.getElementById("content")).querySelector('.dialog-head button, .window [tabindex="0"]:not([hidden])');
}

function isOutside(element, event) {
  const box = element.getBoundingClientRect();
  return (event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom);
}

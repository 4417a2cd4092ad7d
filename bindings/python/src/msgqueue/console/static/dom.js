/** Elements, made from texts and other elements. Nothing here reads markup: what a message contains stays text. */

import { icon } from "./icons.js";

/**
 * Creates an element.
 * @param {string} tag
 * @param {Object<string, any>} [attributes] `on…` functions are listeners; false, null and undefined are left out.
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  element.append(...present(children));
  return element;
}

/**
 * Creates a button with an icon. A press does nothing while it is `aria-disabled`.
 * @param {string} iconName
 * @param {string} label
 * @param {() => void} run
 * @param {Object<string, any>} [attributes]
 * @returns {HTMLButtonElement}
 */
export function button(iconName, label, run, attributes = {}) {
  const press = (event) => event.currentTarget.ariaDisabled !== "true" && run();
  const name = label.toLowerCase().replaceAll(" ", "-");
  return h("button", { type: "button", "data-action": name, onclick: press, ...attributes }, icon(iconName), label);
}

/** A button of a row, of which narrow pages show the icon only. */
export function rowButton(iconName, label, run, attributes) {
  const name = h("span", { class: "control-label" }, label);
  return h("button", { type: "button", class: "plain", title: label, onclick: run, ...attributes }, icon(iconName), name);
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/** Sets or removes an attribute, only if that changes something. */
export function setAttribute(element, name, value) {
  if (value === false || value == null) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Sets the text of an element, only if it differs, so that a screen reader does not read it again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A text from outside: its own direction does not change the text around it.
 * @param {string} text
 * @param {string} [className]
 * @returns {HTMLElement}
 */
export function foreign(text, className) {
  return h("bdi", { class: className, dir: "auto" }, text);
}

/**
 * Hides and shows elements. If the focus was in one that is hidden then, one that is shown in its place gets the focus,
 * or else a control beside it.
 * @param {...[HTMLElement, boolean]} elements Each with whether it is hidden.
 */
export function setHidden(...elements) {
  const focused = document.activeElement;
  const appeared = elements.find(([element, isHidden]) => element.hidden && !isHidden)?.[0];
  for (const [element, isHidden] of elements) if (element.hidden !== isHidden) element.hidden = isHidden;
  if (!elements.some(([element, isHidden]) => isHidden && element.contains(focused))) return;
  const controls = [...focused.parentElement.querySelectorAll("button, a")];
  const place = controls.indexOf(focused);
  const beside = [appeared, ...controls.slice(place), ...controls.slice(0, place).reverse()];
  focusOn(beside.find((each) => each?.checkVisibility()));
}

/** Gives the focus to an element or, without one, to the content: never to nothing, where the keyboard has no place. */
export function focusOn(element) {
  (element ?? document.getElementById("content")).focus({ preventScroll: true });
}

let ids = 0;

/** @returns {string} An id that no other element has. */
export function newId() {
  ids += 1;
  return `e${ids}`;
}

function present(children) {
  return children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

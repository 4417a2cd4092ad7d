/** The icons, drawn with lines in a square of 24. */

const NAMESPACE = "http://www.w3.org/2000/svg";

const PATHS = {
  alert: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 8v5M12 16.2v.1",
  "arrow-left": "M19 12H5M11 18l-6-6 6-6",
  "arrow-up": "M12 19V5M6 11l6-6 6 6",
  bin: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  cellular: "M5 20v-4M10 20v-8M15 20V8M20 20V4",
  check: "M5 12.5l4.5 4.5L19 7",
  "check-double": "M2 12.5l4.5 4.5L15 8M11 16l1 1L22 7",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 7v5l3.5 2",
  close: "M6 6l12 12M18 6L6 18",
  ethernet: "M4 14h16v6H4zM8 14v-4h8v4M12 10V4M8 17v0M12 17v0M16 17v0",
  eye: "M2 12s3.5-6 10-6 10 6 10 6-3.5 6-10 6S2 12 2 12ZM12 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5Z",
  info: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 11v5M12 7.7v.1",
  link: "M10 14a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.7-5.7l-1.3 1.3M14 10a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.7 5.7l1.3-1.3",
  offline:
    "M3 3l18 18M5 12.5a10 10 0 0 1 4-2.5M2 8.8a15 15 0 0 1 4.5-2.9M10.7 5.1A15 15 0 0 1 22 8.8" +
    "M14.5 10a10 10 0 0 1 4.5 2.5M8.5 16a5 5 0 0 1 7 0M12 19.5v.1",
  pause: "M8 5v14M16 5v14",
  pencil: "M4 20l1-4L16.5 4.5l3 3L8 19l-4 1ZM14 7l3 3",
  play: "M7 4.5v15l12-7.5z",
  plus: "M12 5v14M5 12h14",
  retry: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  save: "M12 4v11M7 10.5l5 5 5-5M4 20h16",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.5 15.5L20 20",
  send: "M21 3L10 14M21 3l-7 18-4-7-7-4z",
  wifi: "M2 8.8a15 15 0 0 1 20 0M5 12.5a10 10 0 0 1 14 0M8.5 16a5 5 0 0 1 7 0M12 19.5v.1",
};

/** Icons that are filled, with a sign in the colour of the ground. */
const FILLED = {
  "check-circle": ["M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20Z", "M7.5 12.5l3 3 6-6.5"],
  warning: ["M12 2.5L1.5 21h21z", "M12 9v5.5M12 17.5v.1"],
};

/**
 * Returns an icon. It has no meaning for a screen reader: a text stands beside it, or names its button.
 * @param {string} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const drawing = svg("svg", { viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" });
  if (FILLED[name]) {
    const [shape, sign] = FILLED[name];
    drawing.append(svg("path", { d: shape, class: "shape" }), svg("path", { d: sign, class: "sign" }));
  } else {
    drawing.append(svg("path", { d: PATHS[name] }));
  }
  return drawing;
}

/**
 * Creates an element of a drawing.
 * @param {string} tag
 * @param {Object<string, string|number>} attributes
 * @param {...(Node|string)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

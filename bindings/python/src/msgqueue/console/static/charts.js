/** Small charts, drawn as SVG. Each has a table with the same numbers for screen readers. */

import { h } from "./dom.js";
import { svg } from "./icons.js";
import { count } from "./words.js";

const WIDTH = 340;
const HEIGHT = 120;

/**
 * A figure: title, drawing, and the numbers as a table.
 * @param {string} title
 * @param {string} summary One sentence that says what the chart shows.
 * @param {Node} drawing
 * @param {[string, string][]} rows
 * @returns {HTMLElement}
 */
export function figure(title, summary, drawing, rows) {
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("strong", {}, title), h("span", {}, summary)),
    drawing,
    h(
      "table",
      { class: "hidden-text" },
      h("caption", {}, title),
      h("tbody", {}, ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))),
    ),
  );
}

/**
 * Sent and enqueued messages by the minute, the present one at the right: an area and a line, both named.
 * @param {{sent: number, enqueued: number}[]} minutes
 * @param {number} room How many minutes the width has room for.
 * @returns {HTMLElement}
 */
export function timeline(minutes, room) {
  const most = Math.max(1, ...minutes.flatMap(({ sent, enqueued }) => [sent, enqueued]));
  const x = (index) => WIDTH - (minutes.length - 1 - index) * (WIDTH / (room - 1));
  const floor = HEIGHT - 18;
  const y = (value) => floor - (value / most) * (floor - 18);
  const line = (name) =>
    minutes
      .map((minute, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(minute[name]).toFixed(1)}`)
      .join("");
  const drawing = chart(
    svg("path", { class: "grid", d: `M0 ${y(most)}H${WIDTH}M0 ${y(most / 2)}H${WIDTH}M0 ${y(0)}H${WIDTH}` }),
    svg("text", { x: 0, y: y(most) - 4 }, `${short(most)} in a minute`),
    svg("text", { x: 0, y: HEIGHT - 4 }, "1 hour ago"),
    svg("text", { x: WIDTH / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "30 min ago"),
    svg("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "now"),
  );
  if (minutes.length > 1) {
    drawing.append(
      svg("path", { class: "area", d: `${line("sent")}L${WIDTH} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z` }),
      svg("path", { class: "line", d: line("sent") }),
      svg("path", { class: "line second", d: line("enqueued") }),
    );
  } else {
    for (const { sent, enqueued } of minutes)
      drawing.append(
        svg("circle", { class: "dot", cx: WIDTH - 3, cy: y(sent), r: 3 }),
        svg("circle", { class: "dot second", cx: WIDTH - 3, cy: y(enqueued), r: 3 }),
      );
  }
  return h("div", {}, h("div", { class: "keys", "aria-hidden": "true" }, key("", "Sent"), key("second", "Enqueued")), drawing);
}

function key(kind, name) {
  const sample = svg("svg", { viewBox: "0 0 20 4" }, svg("path", { class: `line ${kind}`, d: "M0 2H20" }));
  return h("span", { class: "key" }, sample, name);
}

/**
 * Upright bars with a label below each.
 * @param {{label: string, value: number}[]} bars
 * @returns {SVGElement}
 */
export function histogram(bars) {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  const step = WIDTH / bars.length;
  const floor = HEIGHT - 18;
  return chart(
    svg("path", { class: "grid", d: `M0 ${floor}H${WIDTH}` }),
    ...bars.flatMap(({ label, value }, index) => {
      const height = value === 0 ? 0 : Math.max((value / most) * (floor - 18), 2);
      const middle = index * step + step / 2;
      return [
        svg("rect", { class: "column", x: index * step + 3, y: floor - height, width: step - 6, height, rx: 2 }),
        svg("text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, label),
        value === 0
          ? ""
          : svg(
              "text",
              { x: middle, y: floor - height - 4, "text-anchor": "middle", class: "value" },
              short(value),
            ),
      ];
    }),
  );
}

/**
 * Bars that lie, with name and number beside each.
 * @param {{label: string, value: number}[]} bars
 * @returns {HTMLElement}
 */
export function ranking(bars) {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  return h(
    "div",
    { class: "ranking", "aria-hidden": "true" },
    ...bars.flatMap(({ label, value }) => {
      const drawing = svg(
        "svg",
        { viewBox: "0 0 100 10", preserveAspectRatio: "none" },
        svg("rect", { class: "column red", width: Math.max((value / most) * 100, 1), height: 10, rx: 1 }),
      );
      return [h("span", {}, label), drawing, h("span", { class: "value" }, count(value))];
    }),
  );
}

function chart(...children) {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "drawing", "aria-hidden": "true" });
  drawing.append(...children.filter((child) => child !== ""));
  return drawing;
}

const short = (value) => (value < 10_000 ? count(value) : `${Math.round(value / 1000)}k`);

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
      h(
        "tbody",
        {},
        ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))),
      ),
    ),
  );
}

/**
 * Two series over time, the newest value at the right: an area and a line.
 * @param {{sent: number, enqueued: number}[]} samples Per second.
 * @param {number} room How many samples the width has room for.
 * @returns {SVGElement}
 */
export function timeline(samples, room) {
  const most = Math.max(1, ...samples.flatMap(({ sent, enqueued }) => [sent, enqueued]));
  const x = (index) => WIDTH - (samples.length - 1 - index) * (WIDTH / (room - 1));
  const y = (value) => HEIGHT - 4 - (value / most) * (HEIGHT - 22);
  const line = (name) =>
    samples
      .map((sample, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(sample[name]).toFixed(1)}`)
      .join("");
  const drawing = chart(
    svg("path", { class: "grid", d: `M0 ${y(most)}H${WIDTH}M0 ${y(most / 2)}H${WIDTH}M0 ${y(0)}H${WIDTH}` }),
    svg("text", { x: 0, y: y(most) - 4 }, `${most < 10 ? most.toFixed(1) : count(Math.round(most))} / s`),
  );
  if (samples.length > 1) {
    drawing.append(
      svg("path", { class: "area", d: `${line("sent")}L${WIDTH} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z` }),
      svg("path", { class: "line", d: line("sent") }),
      svg("path", { class: "line second", d: line("enqueued") }),
    );
  }
  return drawing;
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

/** Numbers and charts of the queue since it was opened, and facts about the store. */

import { figure, histogram, ranking, timeline } from "./charts.js";
import { openDialog } from "./dialogs.js";
import { fill, foreign, h, setText } from "./dom.js";
import { ROOM } from "./samples.js";
import { bytes, count, duration, exactTime, kindLabel, LINKS, plural } from "./words.js";

export class ActivityView {
  /** @param {object} app */
  constructor(app) {
    Object.assign(this, app, { app });
    document.title = "Activity · msgqueue";
    this.since = h("p", { class: "reason" });
    this.tiles = h("dl", { class: "tiles" });
    this.throughput = h("div");
    this.latency = h("div");
    this.failures = h("div");
    this.facts = h("dl", { class: "facts" });
    this.element = h(
      "section",
      { class: "view activity" },
      h("header", { class: "view-head" }, h("div", { class: "view-title" }, h("h1", {}, "Activity"), this.since)),
      this.tiles,
      h("div", { class: "charts" }, this.throughput, this.latency, this.failures),
      h("h2", {}, "Store"),
      this.facts,
      h("p", {}, h("button", { type: "button", onclick: () => this.showAddress() }, "Another browser")),
    );
    this.show = () => this.update();
    this.samples.addEventListener("change", this.show);
    this.queue.addEventListener("state", this.show);
    this.update();
  }

  end() {
    this.samples.removeEventListener("change", this.show);
    this.queue.removeEventListener("state", this.show);
  }

  update() {
    const { counts, state } = this.queue;
    const stats = this.samples.statistics;
    if (!counts || !state || !stats) return;
    setText(this.since, `Since the queue was opened, ${exactTime(stats.opened_ms)}`);
    fill(
      this.tiles,
      ...tiles(stats, counts).flatMap(([name, value, note]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note))),
      ),
    );
    fill(this.throughput, throughput(this.samples.rates));
    fill(this.latency, latency(stats));
    fill(this.failures, failures(stats));
    fill(
      this.facts,
      ...facts(this.session, state, stats).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
  }

  /** An address with which another browser gets access. */
  async showAddress() {
    try {
      const { address } = await this.server.request("/api/address");
      const field = h("input", { readonly: true, value: address, "aria-label": "Address" });
      openDialog({
        title: "Another browser",
        content: [h("p", {}, "This address gives one browser on this machine access, once."), field],
      });
      field.select();
    } catch (problem) {
      this.actions.report(problem);
    }
  }
}

function tiles(stats, counts) {
  const half = percentile(stats, 0.5);
  const most = percentile(stats, 0.95);
  return [
    ["Queued", count(counts.queued + counts.sending), bytes(counts.unsent_bytes)],
    ["Failed", count(counts.failed), null],
    ["Sent", count(stats.sent), `${count(stats.sent_per_minute)} in the last minute`],
    ["Enqueued", count(stats.enqueued), `${count(stats.enqueued_per_minute)} in the last minute`],
    ["Attempts", count(stats.attempts), stats.retried ? `${count(stats.retried)} retried` : null],
    ["Latency", half ? `≤ ${half}` : "–", most ? `95 %: ≤ ${most}` : null],
  ];
}

/** The bound of the class in which a share of the latencies lies. */
function percentile({ latencies, latency_bounds_ms: bounds, latency_max_ms: max }, share) {
  const total = latencies.reduce((sum, value) => sum + value, 0);
  if (total === 0) return null;
  let seen = 0;
  const index = latencies.findIndex((value) => (seen += value) >= share * total);
  return duration(bounds[index] ?? max);
}

function throughput(rates) {
  const now = rates.at(-1) ?? { sent: 0, enqueued: 0 };
  const rate = (value) => `${value.toFixed(value < 10 ? 1 : 0)} / s`;
  return figure("Throughput", `${rate(now.sent)} sent, ${rate(now.enqueued)} enqueued`, timeline(rates, ROOM), [
    ["Sent", rate(now.sent)],
    ["Enqueued", rate(now.enqueued)],
  ]);
}

function latency({ latencies, latency_bounds_ms: bounds, latency_max_ms: max, latency_sum_ms: sum, sent }) {
  const bars = latencies.map((value, index) => ({
    label: index < bounds.length ? compact(bounds[index]) : "more",
    value,
  }));
  const rows = latencies.map((value, index) => [
    index < bounds.length ? `up to ${duration(bounds[index])}` : "longer",
    count(value),
  ]);
  const mean = sent ? `mean ${duration(sum / sent)}, longest ${duration(max)}` : "nothing was sent yet";
  return figure("Latency", `from enqueued to sent: ${mean}`, histogram(bars), rows);
}

/** "10ms", "50", "5s", "2m", "1h" */
const compact = (ms) =>
  ms < 1000
    ? `${ms}${ms === 10 ? "ms" : ""}`
    : ms < 60_000
      ? `${ms / 1000}s`
      : ms < 3_600_000
        ? `${ms / 60_000}m`
        : `${ms / 3_600_000}h`;

function failures({ failures: kinds }) {
  const bars = Object.entries(kinds)
    .filter(([, value]) => value > 0)
    .sort(([, one], [, other]) => other - one)
    .map(([kind, value]) => ({ label: kindLabel(kind), value }));
  const total = bars.reduce((sum, { value }) => sum + value, 0);
  const drawing = total ? ranking(bars) : h("p", { class: "quiet" }, "No attempt has failed.");
  return figure(
    "Failures by kind",
    total ? plural(total, "failed attempt") : "none",
    drawing,
    bars.map(({ label, value }) => [label, count(value)]),
  );
}

function facts(session, state, stats) {
  const modes = { auto: "auto: sends by itself", ask: "ask: a person confirms", manual: "manual: a person sends" };
  return [
    ["File", foreign(session.path)],
    ["Size", `${bytes(stats.file_bytes)}, ${bytes(stats.free_bytes)} of it free`],
    ["Mode", modes[state.mode] ?? state.mode],
    ["Connectivity", connection(state)],
    ["Lifecycle", state.lifecycle],
    ["In flight", count(state.in_flight)],
    ["Paused conversations", count(state.paused_conversations)],
    ["Version", session.version],
  ];
}

function connection({ connectivity, link, metered }) {
  if (connectivity !== "online") return connectivity;
  return `online, ${LINKS[link] ?? link}${metered ? ", metered" : ""}`;
}

/** Numbers of the queue since it was opened, the last hour, and facts about the store. */

import { figure, histogram, ranking, timeline } from "./charts.js";
import { openDialog } from "./dialogs.js";
import { fill, foreign, h, setText } from "./dom.js";
import { oneByOne } from "./one-by-one.js";
import { bytes, count, duration, exactTime, kindLabel, LINKS, plural, visible } from "./words.js";

/** How often the numbers are read while the view is visible, in milliseconds. */
const INTERVAL = 2_000;
/** Minutes in the chart of the last hour. */
const HOUR = 60;

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
      h("p", {}, h("button", { type: "button", onclick: () => this.showAddress() }, "Another browser or tab")),
    );
    this.stats = null;
    this.minutes = [];
    this.show = () => this.update();
    this.read = oneByOne(() => this.readOnce());
    this.timer = setInterval(() => this.queue.connection === "open" && !document.hidden && this.read(), INTERVAL);
    this.queue.addEventListener("state", this.show);
    this.read();
  }

  end() {
    clearInterval(this.timer);
    this.queue.removeEventListener("state", this.show);
  }

  async readOnce() {
    try {
      const [stats, { minutes }] = await Promise.all([this.server.call("stats"), this.server.call("minutes")]);
      Object.assign(this, { stats, minutes });
      this.update();
    } catch (problem) {
      this.queue.note(problem);
    }
  }

  update() {
    const { counts, state } = this.queue;
    const { stats, minutes } = this;
    if (!counts || !state || !stats) return;
    setText(this.since, `Since the queue was opened, ${exactTime(stats.opened_ms)}`);
    fill(
      this.tiles,
      ...tiles(stats, counts).flatMap(([name, value, note]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note))),
      ),
    );
    fill(this.throughput, throughput(minutes));
    fill(this.latency, latency(stats));
    fill(this.failures, failures(stats));
    fill(this.facts, ...facts(this.session, state).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }

  /** An address with which another browser or tab gets access. */
  async showAddress() {
    try {
      const { address } = await this.server.request("/api/address");
      const field = h("input", { readonly: true, value: address, "aria-label": "Address" });
      openDialog({
        title: "Another browser or tab",
        content: [h("p", {}, "This address gives one tab of a browser access, once."), field],
      });
      field.select();
    } catch (problem) {
      this.actions.report(problem);
    }
  }
}

function tiles(stats, counts) {
  const outcomes = [
    ["sent", stats.sent],
    ["retryable", stats.retryable],
    ["refused", stats.rejected],
    ["offline", stats.offline],
  ].filter(([, value]) => value > 0);
  const latencies = [0.5, 0.95, 0.99].map((share) => percentile(stats, share));
  const oldest = stats.oldest_queued_ms;
  return [
    ["Queued", count(counts.queued + counts.sending), bytes(counts.unsent_bytes)],
    ["Oldest waiting", oldest ? duration(Math.max(Date.now() - oldest, 0)) : "–", oldest ? exactTime(oldest) : null],
    ["Failed", count(counts.failed), null],
    ["Sent", count(stats.sent), `${count(stats.sent_per_minute)} in the last minute`],
    ["Attempts", count(stats.attempts), outcomes.map(([name, value]) => `${count(value)} ${name}`).join(", ")],
    ["Time to send", latencies[0] ? `≤ ${latencies[0]}` : "–", latencies[0] ? `p50; p95 ≤ ${latencies[1]}, p99 ≤ ${latencies[2]}` : null],
    ["Enqueued", count(stats.enqueued), `${count(stats.enqueued_per_minute)} in the last minute`],
    ["File", bytes(stats.file_bytes), `${bytes(stats.free_bytes)} of it free`],
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

function throughput(minutes) {
  const sum = (name) => minutes.reduce((total, minute) => total + minute[name], 0);
  const failed = plural(sum("failed_attempts"), "failed attempt");
  const summary = `${plural(sum("sent"))} sent, ${count(sum("enqueued"))} enqueued, ${failed}`;
  const rows = minutes.map((minute) => [
    exactTime(minute.start_ms),
    `${count(minute.sent)} sent, ${count(minute.enqueued)} enqueued, ${count(minute.failed_attempts)} failed`,
  ]);
  return figure("The last hour", summary, timeline(minutes, HOUR), rows);
}

function latency({ latencies, latency_bounds_ms: bounds, latency_max_ms: max, latency_sum_ms: sum, sent }) {
  const bars = latencies.map((value, index) => ({ label: index < bounds.length ? compact(bounds[index]) : "more", value }));
  const rows = latencies.map((value, index) => [index < bounds.length ? `up to ${duration(bounds[index])}` : "longer", count(value)]);
  const mean = sent ? `mean ${duration(sum / sent)}, longest ${duration(max)}` : "nothing was sent yet";
  return figure("Time to send", `from enqueued to sent: ${mean}`, histogram(bars), rows);
}

/** "10ms", "50", "5s", "2m", "1h" */
function compact(ms) {
  if (ms < 1000) return `${ms}${ms === 10 ? "ms" : ""}`;
  if (ms < 60_000) return `${ms / 1000}s`;
  return ms < 3_600_000 ? `${ms / 60_000}m` : `${ms / 3_600_000}h`;
}

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

function facts(session, state) {
  const modes = { auto: "auto: sends by itself", ask: "ask: a person confirms", manual: "manual: a person sends" };
  return [
    ["File", foreign(visible(session.path))],
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

/** What the view of the queue lists: all of it, or what the library selects and sorts, always from the whole queue. */

import { fill, h } from "./dom.js";
import { queueLink } from "./router.js";
import { failureCode, kindLabel, unsent } from "./words.js";

export const STATUS_FILTERS = [
  { name: "all", label: "All", statuses: ["queued", "sending", "failed"], number: unsent },
  { name: "queued", label: "Queued", statuses: ["queued", "sending"], number: (counts) => counts.queued + counts.sending },
  { name: "failed", label: "Failed", statuses: ["failed"], number: (counts) => counts.failed },
];

/** What queued messages are selected by: the label, and the time in whose order the library lists them. */
const WAITS = {
  paused: ["Paused", null],
  scheduled: ["Scheduled, next first", "not_before_ms"],
  retrying: ["Waiting for a retry, next first", "next_attempt_ms"],
};
const AGES = { "1h": ["Older than 1 hour", 3_600_000], "1d": ["Older than 1 day", 86_400_000], "1w": ["Older than 1 week", 604_800_000] };
const SORTS = { "": "Order of sending", oldest: "Oldest first", newest: "Newest first" };
/** Conversations to choose from: the latest ones. */
const CONVERSATIONS = 200;

/** @returns {string} A group of equal failures, as the address has it: "server:503". */
export const groupName = ({ kind, code }) => `${kind}:${code}`;

/**
 * What an address selects.
 * @param {import("./router.js").Route} route
 * @returns {object} `by` and `sort` of the address, and the filter for MessagePages.
 */
export function filterOf({ conversation, query }) {
  const [by, sort] = [query.get("by") ?? "", query.get("sort") ?? ""];
  const shown = STATUS_FILTERS.find(({ name }) => name === query.get("show")) ?? STATUS_FILTERS[0];
  const filter = { by, sort, shown, conversation, statuses: shown.statuses, fields: {}, time: null, isDescending: false, until: 0 };
  const failure = /^([a-z_]+)(?::(-?\d{1,10}))?$/.exec(by);
  const age = AGES[by.replace("older-", "")];
  if (Object.hasOwn(WAITS, by) && (conversation === null || !WAITS[by][1])) {
    Object.assign(filter, { shown: STATUS_FILTERS[1], statuses: ["queued"], fields: { waiting_for: by }, time: WAITS[by][1], sort: "" });
    filter.count = async (server) =>
      conversation === null ? (await server.call("waiting"))[by] : (await server.call("counts", { conversation })).queued;
  } else if (failure && !Object.hasOwn(WAITS, by)) {
    const [kind, code] = [failure[1], failure[2] && Number(failure[2])];
    filter.group = code === undefined ? { kind } : { kind, code };
    Object.assign(filter, { shown: STATUS_FILTERS[2], statuses: ["failed"], fields: filter.group, sort: "" });
    filter.count = async (server) => {
      if (conversation !== null) return (await server.call("counts", { conversation })).failed;
      const { groups } = await server.call("failures", { limit: 1000 });
      const wanted = groups.filter((each) => each.kind === kind && (code === undefined || each.code === code));
      return wanted.reduce((sum, each) => sum + each.count, 0);
    };
  } else if (age || Object.hasOwn(SORTS, sort) && sort) {
    Object.assign(filter, { fields: { order: "time" }, time: "time_ms", isDescending: sort === "newest" });
    filter.until = age ? Date.now() - age[1] : 0;
  } else filter.by = "";
  return filter;
}

/** The fields with which a person selects. The address has what they say, so that they survive a reload. */
export class QueueFilters {
  /**
   * @param {object} app
   * @param {object} filter Of `filterOf`.
   */
  constructor(app, filter) {
    Object.assign(this, app, { filter, shown: "" });
    const { conversation, by, sort } = filter;
    this.by = field("by", "Filter", [], by, (value) => this.go({ by: value, show: "" }));
    this.sort = field("sort", "Sort", Object.entries(SORTS), sort, (value) => this.go({ sort: value }));
    // The library sorts by time what it selects by neither a reason nor a failure.
    this.sort.disabled = Boolean(filter.group || filter.fields.waiting_for);
    this.conversations = field("conversation", "Conversation", [["", "All conversations"]], "", (value) =>
      this.go({ conversation: value === "" ? null : value.slice(1) }));
    this.element = h("div", { class: "fields" }, this.by, this.conversations, this.sort);
    this.update([]);
    this.showConversations(conversation === null ? [] : [conversation]);
    this.load();
  }

  /** Goes to the address with other choices. */
  go(changes) {
    const { conversation, by, sort, shown } = { ...this.filter, ...changes };
    const show = changes.show ?? shown.name;
    const query = new URLSearchParams(Object.entries({ show: show === "all" ? "" : show, by, sort }).filter(([, value]) => value));
    this.router.go(`${queueLink(conversation)}${query.size ? `?${query}` : ""}`);
  }

  /** Offers the failures that there are. */
  update(groups) {
    const kinds = new Map();
    for (const group of groups) kinds.set(group.kind, [...(kinds.get(group.kind) ?? []), group]);
    const failures = [...kinds].flatMap(([kind, codes]) => [
      ...(codes.length > 1 ? [[kind, `${kindLabel(kind)}, any code`]] : []),
      ...codes.map((group) => [groupName(group), failureCode(group)]),
    ]);
    const { by, group } = this.filter;
    if (group && !failures.some(([value]) => value === by)) failures.push([by, failureCode({ code: 0, ...group })]);
    const shown = JSON.stringify(failures);
    if (shown === this.shown) return;
    this.shown = shown;
    const isOne = this.filter.conversation !== null;
    const waits = Object.entries(WAITS).map(([value, [label, time]]) => [value, label, isOne && time !== null]);
    const ages = Object.entries(AGES).map(([value, [label]]) => [`older-${value}`, label]);
    const parts = [part("Waiting", waits, by), part("Failed with", failures, by), part("Age", ages, by)];
    fill(this.by, ...options([["", "No filter"]], by), ...parts.flat());
  }

  async load() {
    try {
      const { conversations } = await this.server.call("conversations", { limit: CONVERSATIONS });
      this.titles.note(conversations);
      this.showConversations(conversations.filter(({ counts }) => unsent(counts) > 0).map(({ name }) => name));
    } catch (problem) {
      this.queue.note(problem);
    }
  }

  showConversations(names) {
    const { conversation } = this.filter;
    const all = conversation === null || names.includes(conversation) ? names : [conversation, ...names];
    const choices = all.map((name) => [`/${name}`, this.titles.textOf(name)]);
    fill(this.conversations, ...options([["", "All conversations"], ...choices], conversation === null ? "" : `/${conversation}`));
  }
}

function field(name, label, choices, chosen, change) {
  return h("select", { name, "aria-label": label, onchange: ({ target }) => change(target.value) }, ...options(choices, chosen));
}

const options = (choices, chosen) =>
  choices.map(([value, label, disabled]) => h("option", { value, disabled, selected: value === chosen }, label));

const part = (label, choices, chosen) => (choices.length ? [h("optgroup", { label }, ...options(choices, chosen))] : []);

/** What a person can do with many messages at once. A group is one call of the library; chosen ones are calls one by one. */

import { isSure } from "./dialogs.js";
import { h } from "./dom.js";
import { CallError } from "./server.js";
import { conversationName, failureCode, plural } from "./words.js";

/** Messages that are read at once with their bodies. */
const PAGE = 500;
/** How long the file of an export is kept for the browser, in milliseconds. */
const KEPT = 60_000;

/** Deletes the failed messages with a kind and code, after a question. */
export async function deleteGroup(actions, conversation, { kind, code, count }) {
  const what = `failed with ${failureCode({ kind, code: code ?? 0 })}`;
  const where = conversation === null ? "" : ` in ${conversationName(conversation)}`;
  const question = (number) => {
    const some = () => `${plural(number)} that ${number === 1 ? "has" : "have"} ${what}`;
    const which = number === undefined ? `All messages that have ${what}` : some();
    return isSure("Delete these failed messages?", `${which}${where} will be deleted for good.`);
  };
  const recount = async () => {
    const { groups } = await actions.server.call("failures", { limit: 1000 });
    return groups.find((group) => group.kind === kind && group.code === code)?.count ?? 0;
  };
  await actions.once("delete group", async () => {
    if ((await sureNumber(count, question, recount)) === null) return;
    const fields = { kind, ...(code !== undefined && { code }), ...(conversation !== null && { conversation }) };
    actions.notices.show(`${plural((await actions.server.call("clear_failed", fields)).count)} deleted.`, "good");
  });
}

/**
 * Asks until no more messages are there than the person was asked about.
 * @param {number|undefined} number How many are to be deleted; undefined: all, however many they are.
 * @param {(number: number) => Promise<boolean>} question
 * @param {() => Promise<number>} recount
 * @returns {Promise<number|null|undefined>} How many there are after the answer; null: the answer is no.
 */
export async function sureNumber(number, question, recount) {
  for (let asked = number; ; ) {
    if (!(await question(asked))) return null;
    const found = asked === undefined ? undefined : await recount();
    if (found === undefined || found <= asked) return found;
    asked = found;
  }
}

/**
 * Deletes chosen messages, after a question. Those that are gone or being sent are left out.
 * @param {import("./actions.js").Actions} actions
 * @param {object[]} messages
 * @returns {Promise<boolean>} Whether the person agreed.
 */
export async function deleteChosen(actions, messages) {
  if (!(await isSure(`Delete ${plural(messages.length)}?`, "They will be deleted for good."))) return false;
  await actions.once("delete chosen", async () => {
    const done = await each(messages, ({ id }) => actions.server.call("delete", { message: id }));
    actions.queue.announce({ everything: false, ids: new Set(), removed: new Set(done.map(({ id }) => id)) });
    actions.notices.show(`${plural(done.length)} deleted.`, "good");
  });
  return true;
}

/**
 * Performs a call for each message.
 * @returns {Promise<object[]>} Those for which the queue did not refuse it.
 */
export async function each(messages, call) {
  const done = [];
  for (const message of messages) {
    try {
      await call(message);
      done.push(message);
    } catch (problem) {
      if (!(problem instanceof CallError) || problem.code === "CLOSED") throw problem;
    }
  }
  return done;
}

/**
 * Saves messages with their bodies as a file, one line of JSON each, which `msgq import` reads.
 * @param {import("./actions.js").Actions} actions
 * @param {object} what A filter of MessagePages, or chosen messages as `messages`.
 */
export function exportMessages(actions, what) {
  return actions.once("export", async () => {
    const parts = [];
    let number = 0;
    for await (const messages of what.messages ? chosen(actions.server, what.messages) : selected(actions.server, what)) {
      parts.push(new Blob(messages.map((message) => `${JSON.stringify(message, inRange)}\n`)));
      number += messages.length;
    }
    const address = URL.createObjectURL(new Blob(parts, { type: "application/jsonl" }));
    h("a", { href: address, download: "messages.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(address), KEPT);
    actions.notices.show(`${plural(number)} exported.`, "good", { about: "export" });
  });
}

/** A time at the end of the range of the library is rounded here to one beyond it. */
const inRange = (_, value) => (typeof value === "number" ? Math.min(value, Number.MAX_SAFE_INTEGER) : value);

async function* chosen(server, messages) {
  for (const { id } of messages) yield await server.call("get", { message: id }).then((message) => [message], goneIsNone);
}

function goneIsNone(problem) {
  if (problem instanceof CallError && problem.code === "NOT_FOUND") return [];
  throw problem;
}

async function* selected(server, { conversation = null, statuses, fields, time = null, isDescending = false, until = 0 }) {
  let place = until && isDescending ? { after_time_ms: until } : {};
  while (place) {
    const scope = conversation === null ? {} : { conversation };
    const order = { newest_first: isDescending, bodies: true, limit: PAGE };
    const { messages, next, next_time_ms } = await server.call("list", { ...fields, ...scope, ...order, statuses, ...place });
    const wanted = until ? messages.filter(({ time_ms }) => time_ms <= until) : messages;
    yield wanted;
    place = next === null || wanted.length < messages.length ? null : { after: next, ...(time && { after_time_ms: next_time_ms }) };
  }
}

/** The sheet in which the text of a message is changed. */

import { fill, h, newId } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { withLineEndsOf } from "./line-ends.js";
import { CallError } from "./server.js";
import { bytes, isText } from "./words.js";

/** The longest text that is edited here, in bytes: a field of the browser becomes slow with longer ones. */
const LONGEST = 1 << 20;

const GONE = "This message was sent or deleted meanwhile.";
const PROBLEMS = {
  BUSY: "This message is being sent right now. Try again when that has ended.",
  CONFLICT: GONE,
  NOT_FOUND: GONE,
  TOO_LARGE: "The text is too long for this queue.",
  FULL: "The queue is full.",
};

/**
 * Lets the person change a message, and saves it.
 * @param {import("./server.js").Server} server
 * @param {import("./queue.js").Queue} queue
 * @param {object} message
 */
export async function editMessage(server, queue, message) {
  const whole = await server.call("get", { message: message.id });
  const id = newId();
  const refusal = refusalOf(whole);
  const text = h("textarea", { id, rows: 8, dir: "auto", "aria-describedby": `${id}-note`, hidden: refusal !== "" });
  text.value = refusal ? "" : whole.body;
  const note = h("p", { class: "note", id: `${id}-note`, role: "status" }, refusal);
  const save = h("button", { type: "submit", class: "primary" }, "Save");
  let isLost = refusal !== "";
  let isSaving = false;
  const validate = () => {
    save.disabled = isLost || isSaving || text.value.trim() === "";
  };
  const lose = (problem, isFinal) => {
    fill(note, problem);
    isLost = isFinal;
    validate();
  };

  const submit = async (event) => {
    event.preventDefault();
    if (save.disabled) return;
    isSaving = true;
    validate();
    try {
      await server.call("edit", { message: message.id, body: withLineEndsOf(whole.body, text.value) });
      queue.announceOne(message.id);
      dialog.close("saved");
    } catch (problem) {
      const code = problem instanceof CallError ? problem.code : "";
      lose(PROBLEMS[code] ?? problem.message, code === "NOT_FOUND" || code === "CONFLICT");
    }
    isSaving = false;
    validate();
  };

  const form = h(
    "form",
    { onsubmit: submit },
    h("label", { for: id, hidden: refusal !== "" }, "Text of the message"),
    text,
    note,
    h(
      "div",
      { class: "dialog-foot" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      save,
    ),
  );
  const dialog = openDialog({ title: "Edit message", kind: "edit", content: [form] });
  text.addEventListener("input", validate);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  validate();
  if (!refusal) text.focus();

  // The message may go while the person writes.
  const watch = async ({ detail: { everything, ids, removed } }) => {
    if (removed.has(message.id)) lose(GONE, true);
    else if (everything || ids.has(message.id)) await look();
  };
  const look = async () => {
    try {
      const { status } = await server.call("get", { message: message.id });
      if (status !== "queued" && status !== "failed" && status !== "sending") lose(GONE, true);
    } catch (problem) {
      if (problem instanceof CallError && problem.code === "NOT_FOUND") lose(GONE, true);
    }
  };
  queue.addEventListener("messages", watch);
  await dialog.closed;
  queue.removeEventListener("messages", watch);
}

/** Why a message cannot be edited here; "": it can. */
function refusalOf(message) {
  if (!isText(message)) return `This message is not text and cannot be edited here. It has ${bytes(message.body_size)}.`;
  if (message.body_size > LONGEST)
    return `This message has ${bytes(message.body_size)}. Texts of more than ${bytes(LONGEST)} cannot be edited here.`;
  return "";
}

/** The dialog of a failed message: retry, delete or cancel. */

import { ask } from "./dialogs.js";
import { foreign, h } from "./dom.js";
import { failureSentence } from "./words.js";

/** Asks what to do with a failed message, and does it. Cancel changes nothing. */
export async function askAboutFailed(actions, message) {
  const answer = await ask({
    title: "Message not sent",
    text: [
      h("blockquote", {}, foreign(message.preview || "(empty)")),
      message.failure ? h("p", { class: "sentence" }, failureSentence(message)) : null,
      "This message failed to send. Would you like to retry or delete it?",
    ],
    answers: [
      { value: "delete", label: "Delete", kind: "danger" },
      { value: "cancel", label: "Cancel" },
      { value: "retry", label: "Retry", kind: "primary" },
    ],
  });
  if (answer === "retry") await actions.retry(message);
  if (answer === "delete") await actions.removeNow(message);
}

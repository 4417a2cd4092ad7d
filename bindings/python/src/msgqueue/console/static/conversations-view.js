/** The conversations, and the one that was chosen. */

import { Chat } from "./chat.js";
import { Compose } from "./compose.js";
import { ConversationList } from "./conversation-list.js";
import { h, newId } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { icon } from "./icons.js";
import { conversationLink } from "./router.js";

export class ConversationsView {
  constructor(app, { conversation }) {
    this.app = app;
    this.list = new ConversationList(app, conversation);
    this.chat = conversation === null ? null : new Chat(app, conversation);
    document.title = "Conversations · msgqueue";
    this.element = h(
      "section",
      { class: `view split ${conversation === null ? "no-choice" : "has-choice"}` },
      h(
        "div",
        { class: "split-list" },
        h(
          "header",
          { class: "view-head" },
          h(conversation === null ? "h1" : "h2", {}, "Conversations"),
          h("div", { class: "view-buttons" }, h("button", { type: "button", onclick: () => this.compose() }, icon("plus"), "New message")),
        ),
        this.list.element,
      ),
      this.chat
        ? this.chat.element
        : h("div", { class: "empty split-empty" }, icon("arrow-left"), h("p", {}, "Choose a conversation")),
    );
  }

  end() {
    this.list.end();
    this.chat?.end();
  }

  /** A message to a conversation that may be new. */
  compose() {
    const id = newId();
    const { drafts } = this.app.actions;
    const keep = () => drafts.set("new conversation", name.value || null);
    const name = h("input", { id, maxlength: 255, autocomplete: "off", dir: "auto", oninput: keep });
    name.value = drafts.get("new conversation") ?? "";
    const compose = new Compose(
      this.app.actions,
      () => name.value.trim(),
      () => {
        drafts.set("new conversation", null);
        dialog.close();
        this.app.router.go(conversationLink(name.value.trim()));
      },
      "new message",
    );
    const dialog = openDialog({
      title: "New message",
      kind: "edit",
      content: [h("div", { class: "field" }, h("label", { for: id }, "Conversation"), name), compose.element],
    });
    name.focus();
  }
}

/** Equal failures of the whole queue, each with its number, its first time, and what can be done with all of them. */

import { deleteGroup, exportMessages } from "./bulk.js";
import { fill, h, rowButton, setHidden } from "./dom.js";
import { icon } from "./icons.js";
import { groupName } from "./queue-filters.js";
import { clockTime, failureCode, plural } from "./words.js";

export class FailureGroups {
  /** @param {import("./actions.js").Actions} actions */
  constructor(actions) {
    Object.assign(this, { actions, shown: "" });
    this.list = h("ul", {});
    this.element = h("section", { class: "groups", "aria-label": "Equal failures", hidden: true }, this.list);
  }

  /** @param {object[]} groups */
  update(groups) {
    const shown = JSON.stringify(groups.map((group) => [group, clockTime(group.first_ms)]));
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    fill(this.list, ...groups.map((group) => this.item(group)));
    setHidden([this.element, groups.length === 0]);
    if (focused) (this.list.querySelector(`[data-action="${CSS.escape(focused)}"]`) ?? this.list.querySelector("a"))?.focus();
  }

  item(group) {
    const { kind, code, count, first_ms: first, sentence } = group;
    const what = `${plural(count)} with ${failureCode(group)}`;
    const act = (iconName, label, run) =>
      rowButton(iconName, label, run, { "aria-label": `${label} ${what}`, "data-action": `${label} ${groupName(group)}` });
    const link = { href: `#/queue?show=failed&by=${groupName(group)}`, title: sentence, "data-action": groupName(group) };
    return h(
      "li",
      {},
      icon("alert"),
      h("a", link, h("strong", {}, failureCode(group)), ` since ${clockTime(first)}: ${plural(count)}`),
      h(
        "span",
        { class: "row-buttons" },
        act("retry", "Retry", () => this.actions.retryAll(null, { kind, code })),
        act("bin", "Delete", () => deleteGroup(this.actions, null, group)),
        act("save", "Export", () => exportMessages(this.actions, { statuses: ["failed"], fields: { kind, code } })),
      ),
    );
  }
}

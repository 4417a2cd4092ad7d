/** The page: connects its parts, and shows the view of the address. */

import { Actions } from "./actions.js";
import { ActivityView } from "./activity-view.js";
import { Bars } from "./bars.js";
import { Capsule } from "./capsule.js";
import { ConversationsView } from "./conversations-view.js";
import { fill, foreign, h, setAttribute, setText } from "./dom.js";
import { Drafts } from "./drafts.js";
import { Feed } from "./feed.js";
import { icon } from "./icons.js";
import { KeptEdits } from "./kept-edits.js";
import { Notices } from "./notices.js";
import { Queue } from "./queue.js";
import { QueueView } from "./queue-view.js";
import { Router } from "./router.js";
import { SearchView } from "./search-view.js";
import { NoAccessError, Server } from "./server.js";
import { keepTimesRight } from "./times.js";
import { Titles } from "./titles.js";
import { Toast } from "./toast.js";
import { conversationName, count, unsent, visible } from "./words.js";

const VIEWS = { queue: QueueView, conversations: ConversationsView, activity: ActivityView, search: SearchView };
const TABS = [["queue", "Queue", "clock"], ["conversations", "Conversations", "send"], ["activity", "Activity", "cellular"]];
const place = (id) => document.getElementById(id);

async function start() {
  const server = new Server(0);
  const queue = new Queue(server);
  let session;
  try {
    await server.enter();
    session = await server.request("/api/session");
  } catch (problem) {
    refuse(problem);
    return;
  }
  const wanted = new URLSearchParams(location.search).get("store") ?? "0";
  const number = /^\d{1,9}$/.test(wanted) ? Number(wanted) : -1;
  const store = session.stores[number];
  if (!store) {
    refuseStore(wanted, session.stores);
    return;
  }
  server.store = number;
  const notices = new Notices(place("notices"), queue);
  const actions = new Actions(server, queue, notices, new Drafts(store.path));
  new KeptEdits(actions);
  const titles = new Titles(server);
  const app = { server, queue, actions, notices, titles, session: { ...store, version: session.version } };
  app.router = new Router((route) => show(app, route));

  showStores(session.stores, number);
  new Bars(place("bars"), queue, actions, store.is_opened_here);
  new Capsule(place("capsule"), queue);
  new Toast(place("toasts"), queue, actions, app.router);
  const updateTabs = showTabs();
  queue.addEventListener("state", () => updateTabs(queue.counts));
  place("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = place("search-text").value.trim();
    app.router.go(text ? `#/search?q=${encodeURIComponent(text)}` : "#/search");
  });
  document.addEventListener("keydown", focusSearch);
  keepTimesRight();
  new Feed(server, (events) => queue.receive(events), () => lose(server, queue));
  app.router.start();
}

let view = null;

/** Shows the view of an address in place of the one before. */
function show(app, route) {
  const { name } = document.activeElement;
  view?.end();
  // What was typed in a sheet is kept as a draft.
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("");
  app.queue.setScope(route.view === "queue" || route.view === "conversations" ? route.conversation : null);
  view = new VIEWS[route.view](app, route);
  fill(place("content"), view.element);
  for (const tab of place("tabs").children)
    setAttribute(tab, "aria-current", tab.dataset.view === route.view ? "page" : null);
  place("search-text").value = route.query.get("q") ?? "";
  // The keyboard and the screen reader begin where the view begins, but not when the page is opened.
  const field = name && place("content").querySelector(`select[name="${name}"]`);
  if (app.router.previous !== null) (field || place("content")).focus({ preventScroll: true });
}

/** Finds out why no events come. */
async function lose(server, queue) {
  try {
    await server.request("/api/session");
  } catch (problem) {
    queue.note(problem);
  }
}

function showTabs() {
  const number = h("span", { class: "number" });
  fill(
    place("tabs"),
    ...TABS.map(([name, label, iconName]) =>
      h("a", { href: `#/${name}`, "data-view": name }, icon(iconName), h("span", {}, label), name === "queue" && number),
    ),
  );
  return (counts) => counts && setText(number, unsent(counts) ? count(unsent(counts)) : "");
}

/** The page has no access, or its console has ended. */
function refuse(problem) {
  const isStranger = problem instanceof NoAccessError;
  const text = isStranger
    ? "An address of the review page works once, for one tab of a browser, until the console ends. Run " +
      "“msgq console” again, or use “Another browser or tab” in the view “Activity” of a page that is open."
    : problem.message;
  const title = isStranger ? "No access" : "No answer";
  fill(place("content"), h("div", { class: "empty" }, h("h1", { role: "alert" }, title), h("p", {}, text)));
}

/** The address names a store that the console does not show. */
function refuseStore(wanted, stores) {
  const links = stores.map(({ name, path }, index) =>
    h("li", {}, h("a", { href: `/?store=${index}`, title: visible(path) }, foreign(visible(name)))),
  );
  fill(
    place("content"),
    h(
      "div",
      { class: "empty" },
      h("h1", { role: "alert" }, "There is no store “", foreign(visible(wanted.slice(0, 40))), "” here"),
      h("p", {}, "The console shows:"),
      h("ul", { class: "stores" }, ...links),
    ),
  );
}

function showStores(stores, number) {
  if (stores.length === 1) {
    fill(place("store"), foreign(conversationName(stores[0].name)));
    place("store").title = visible(stores[0].path);
    return;
  }
  const options = stores.map((store, index) =>
    h("option", { value: index, selected: index === number, title: visible(store.path) }, conversationName(store.name)),
  );
  fill(
    place("store"),
    h("select", { "aria-label": "Store", onchange: (event) => location.assign(`/?store=${event.target.value}`) }, ...options),
  );
}

/** "/" goes to the search, as on many pages. */
function focusSearch(event) {
  if (event.key !== "/" || event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  place("search-text").focus();
}

start();

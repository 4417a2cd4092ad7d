/** Tells the console whether this page is visible, where it was told to drive the lifecycle of the queue. */

/** @param {import("./server.js").Server} server */
export function reportVisibility(server) {
  const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("");
  const report = (visible) => server.request("/api/visible", { page, visible }).catch(() => {});
  report(!document.hidden);
  document.addEventListener("visibilitychange", () => report(!document.hidden));
  addEventListener("pagehide", () => report(false));
  addEventListener("pageshow", () => report(!document.hidden));
}

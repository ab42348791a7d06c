// What a page does by itself: it shows what the server has drawn anew, and takes a few keys. Works without it too.
"use strict";

const SILENT_S = 10;
const RETRY_MS = 5000;

function listen() {
  const regions = document.querySelectorAll("[data-live]");
  const rows = document.querySelector("[data-live-rows]");
  if (!regions.length && !rows) return;
  const state = document.querySelector("[data-live-state]");
  const say = (text) => { if (state) state.textContent = text; };
  let source, heard, again;
  const live = () => { heard = performance.now(); say("live"); };
  const connect = () => {
    source = new EventSource("/live");
    // The server escapes every name; the policy of the page lets nothing else run.
    for (const region of regions) {
      source.addEventListener(region.dataset.live, (event) => { region.innerHTML = event.data; });
    }
    if (rows) source.addEventListener("outcome", (event) => putOnTop(rows, event.data));
    source.addEventListener("overview", live);
    source.onopen = live;
    source.onerror = () => {
      say("not connected, trying again");
      // The browser does so itself, unless somebody answered: a proxy whose server is away, or a server that is full.
      if (source.readyState === EventSource.CLOSED) again = setTimeout(connect, RETRY_MS);
    };
  };
  connect();
  // Each second brings something. A connection by which nothing comes is not live: a catalog that is waited for breaks none.
  setInterval(() => {
    const silent_s = Math.floor((performance.now() - heard) / 1000);
    if (source.readyState === EventSource.OPEN && silent_s >= SILENT_S) {
      say(`nothing new for ${silent_s} s: Health says why`);
    }
  }, 1000);
  // A page that one comes back to asks anew: not once more by what it was about to do when it was left.
  addEventListener("pagehide", () => { clearTimeout(again); source.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
}

// The newest rows, of which those come on top that are not there. The list has no holes: where some are missing in between,
// what was shown goes, and the link to older ones begins where the list ends.
function putOnTop(rows, html) {
  const seqOf = (row) => (row ? Number(row.querySelector("a.row").textContent) : 0);
  const told = document.createElement("tbody");
  told.innerHTML = html;
  const newest = seqOf(rows.firstElementChild);
  const came = [...told.children].filter((row) => seqOf(row) > newest);
  if (!came.length) return;
  if (seqOf(came.at(-1)) > newest + 1) rows.replaceChildren();
  rows.prepend(...came);
  while (rows.children.length > Number(rows.dataset.liveRows)) rows.lastElementChild.remove();
  rows.closest(".scroll").hidden = false;
  for (const each of document.querySelectorAll("[data-empty]")) each.hidden = true;
  const older = document.querySelector("[data-older]");
  if (!older) return;
  older.href = `/log?before=${seqOf(rows.lastElementChild)}`;
  older.parentElement.hidden = seqOf(rows.lastElementChild) <= 1;
}

function takeKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    event.preventDefault();
    if (field) field.focus(); else location.href = "/log#search";
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll("a.row")];
    const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    if (links.length) links[Math.max(0, Math.min(links.length - 1, at))].focus();
  }
}

listen();
document.addEventListener("keydown", takeKeys);
if (location.hash === "#search") document.querySelector("[data-search]")?.focus();

// What a page does by itself: it shows what the server has drawn anew, and takes a few keys. Works without it too.
"use strict";

function listen() {
  const regions = document.querySelectorAll("[data-live]");
  const rows = document.querySelector("[data-live-rows]");
  if (!regions.length && !rows) return;
  const source = new EventSource("/live");
  const state = document.querySelector("[data-live-state]");
  // The server escapes every name; the policy of the page lets nothing else run.
  for (const region of regions) {
    source.addEventListener(region.dataset.live, (event) => { region.innerHTML = event.data; });
  }
  if (rows) source.addEventListener("outcome", (event) => putOnTop(rows, event.data));
  source.onopen = () => { if (state) state.textContent = "live"; };
  source.onerror = () => { if (state) state.textContent = "not connected, trying again"; };
  addEventListener("pagehide", () => source.close());
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

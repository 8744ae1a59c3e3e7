// The view now, live: the server pushes the parts of the view that have changed, and these are replaced.

import { getFragment } from "./page.js";

const view = document.getElementById("now");
const state = document.getElementById("now-state");
const unknown = document.getElementById("now-unknown");
const AGAIN_MILLISECONDS = 30_000;
let source = null;
const STALE_MILLISECONDS = 45_000; // the server is silent for 15 seconds at most
let timer = 0;
let staleTimer = 0;

const waiting = new Map();

/** Replaces parts that have changed, [id, HTML] each. A part in which the focus is waits until it has gone. */
function show(parts) {
  for (const [id, html] of parts) waiting.set(id, html);
  for (const [id, html] of waiting) {
    const shown = document.getElementById(id);
    if (shown?.contains(document.activeElement)) continue;
    const template = document.createElement("template");
    template.innerHTML = html;
    if (shown && shown.innerHTML !== template.innerHTML) shown.innerHTML = html;
    waiting.delete(id);
  }
}

/** Says whether the page is kept up to date. While it is not, nobody knows whether anything is wrong. */
function say(isLive) {
  clearTimeout(staleTimer);
  if (isLive) staleTimer = setTimeout(say, STALE_MILLISECONDS, false);
  const text = isLive ? view.dataset.on : view.dataset.off;
  if (state.textContent === text) return;
  state.textContent = text;
  unknown.replaceChildren(...(isLive ? [] : [document.getElementById("now-unknown-text").content.cloneNode(true)]));
  document.getElementById("now-severities").hidden = !isLive;
}

async function reload() {
  const content = await getFragment(location.pathname + location.search);
  if (content.querySelector("#now")) {
    show([...content.querySelectorAll("[data-live]")].map((part) => [part.id, part.innerHTML]));
  }
}

/** Tries again after a refusal: there were too many browsers, Redis was away, or the session has ended. */
async function again() {
  try {
    await reload();
    if (!document.hidden) open();
  } catch {
    if (!document.hidden) timer = setTimeout(again, AGAIN_MILLISECONDS);
  }
}

function close() {
  clearTimeout(timer);
  clearTimeout(staleTimer);
  source?.close();
  source = null;
}

function open() {
  close();
  staleTimer = setTimeout(say, STALE_MILLISECONDS, false);
  source = new EventSource(view.dataset.events);
  source.addEventListener("now", (event) => {
    show(Object.entries(JSON.parse(event.data)));
    say(true);
  });
  source.addEventListener("reload", open); // it has missed some: it gets all parts anew
  source.addEventListener("error", () => {
    say(false);
    // After a lost connection the browser tries again by itself, after a refusal it does not.
    if (source?.readyState === EventSource.CLOSED) timer = setTimeout(again, AGAIN_MILLISECONDS);
  });
}

// A page that nobody sees is not kept up to date: the places are few.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", (event) => event.persisted && open());
if (!document.hidden) open();

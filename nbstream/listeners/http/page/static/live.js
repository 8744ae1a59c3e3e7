// The view now, live: the server pushes the parts of the view that have changed, and these are replaced.

import { getFragment } from "./page.js";

const view = document.getElementById("now");
const state = document.getElementById("now-state");
const AGAIN_MILLISECONDS = 30_000;
let source = null;
let timer = 0;

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

function say(isLive) {
  const text = isLive ? view.dataset.on : view.dataset.off;
  if (state.textContent !== text) state.textContent = text;
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
  source?.close();
  source = null;
}

function open() {
  close();
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

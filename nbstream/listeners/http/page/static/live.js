// The view now, live: the server pushes the view when there is something new, and what has changed is replaced.

import { getFragment } from "./page.js";

const view = document.getElementById("now");
const state = document.getElementById("now-state");
const AGAIN_MILLISECONDS = 30_000;
let source = null;
let timer = 0;

/** Replaces the parts that have changed; what the reader has opened or focused stays, as it is no such part. */
function show(content) {
  for (const part of content.querySelectorAll("[data-live]")) {
    const shown = document.getElementById(part.id);
    if (shown && shown.innerHTML !== part.innerHTML && !shown.contains(document.activeElement)) {
      shown.innerHTML = part.innerHTML;
    }
  }
}

function say(isLive) {
  const text = isLive ? view.dataset.on : view.dataset.off;
  if (state.textContent !== text) state.textContent = text;
}

async function reload() {
  const content = await getFragment(location.pathname + location.search);
  if (content.querySelector("#now")) show(content);
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
    const template = document.createElement("template");
    template.innerHTML = JSON.parse(event.data).html;
    show(template.content);
    say(true);
  });
  source.addEventListener("reload", () => reload().catch(() => say(false)));
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

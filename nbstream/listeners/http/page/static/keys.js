// Keys as in mail programs: j and k go to the next message and the one before, h and s teach, u takes back, ? helps.
//
// A list remembers its messages for this tab, so that j and k go on from message to message. A button that a page
// does not have has no key either.

import { onKey } from "./page.js";

const LIST = "nbstream-list";
const items = [...document.querySelectorAll('td > a[href^="/ui/messages/"], td > a[href^="/ui/quarantine/"]')];
const help = document.querySelector("details[data-keys]");

function lastSegment(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function remembered() {
  try {
    const paths = JSON.parse(sessionStorage.getItem(LIST));
    return Array.isArray(paths) ? paths.filter((path) => typeof path === "string" && path.startsWith("/ui/")) : [];
  } catch {
    return [];
  }
}

function remember() {
  try {
    sessionStorage.setItem(LIST, JSON.stringify(items.map((item) => item.pathname)));
  } catch {
    // a browser may forbid it: then j and k move in lists alone
  }
}

function moveInList(step) {
  const now = items.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : items.length - 1) : now + step;
  items[next]?.focus();
}

function moveToMessage(step) {
  const paths = remembered();
  const now = paths.findIndex((path) => lastSegment(path) === lastSegment(location.pathname));
  const next = now < 0 ? undefined : paths[now + step];
  if (next) location.assign(next);
}

const move = items.length ? moveInList : moveToMessage;

function press(key) {
  document.querySelector(`button[data-key="${key}"]`)?.click();
}

if (items.length) remember();
onKey("j", () => move(1));
onKey("k", () => move(-1));
for (const key of ["h", "s", "u"]) onKey(key, () => press(key));
if (help) {
  help.hidden = false;
  onKey("?", () => {
    help.open = !help.open;
    help.querySelector("summary").focus();
  });
}

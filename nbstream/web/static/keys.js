// Keys as in mail programs: j and k go to the next message and the one before, h and s teach, u takes back, ? helps.
//
// A list remembers its messages for this tab, so that j and k and the links of a message go on from message to
// message, and from the last one to the next page of the list. In a list h, s and u teach the line that has the
// focus. A button that a page does not have has no key either.

const LIST = "nbstream-list";
const LESSONS = { h: "ham", s: "spam", u: "unlearn" };
const items = [...document.querySelectorAll('td > a[href^="/ui/messages/"]')];
const teaching = document.querySelector("form[data-teach]");
const nav = document.querySelector("[data-list-links]");
const help = document.querySelector("details[data-keys]");

/**
 * Returns the content of a page without the layout, as a DocumentFragment; that of a refusal too. Where the session
 * has ended, the login is shown instead.
 */
async function getFragment(path, options = {}) {
  const headers = { "X-Fragment": "1", ...options.headers };
  const response = await fetch(path, { credentials: "same-origin", ...options, headers });
  if (response.status === 403 && response.headers.get("X-Login") === "needed") {
    location.assign(`/ui/login?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  return template.content;
}

/** Calls `act` when the reader presses the key, except in a field or with Ctrl, Alt or Meta. */
function onKey(key, act) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key !== key || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act(event);
  });
}

function lastSegment(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function ownPath(value) {
  return typeof value === "string" && value.startsWith("/ui/") ? value : null;
}

/** The list that this tab saw last: where it is, its next page, and the paths of its messages. */
function remembered() {
  try {
    const { here, next, paths } = JSON.parse(sessionStorage.getItem(LIST));
    return { here: ownPath(here), next: ownPath(next), paths: paths.map(ownPath).filter(Boolean) };
  } catch {
    return { here: null, next: null, paths: [] };
  }
}

function remember() {
  const next = document.querySelector("a[rel=next]")?.getAttribute("href") ?? null;
  const list = { here: location.pathname + location.search, next, paths: items.map((item) => item.pathname) };
  try {
    sessionStorage.setItem(LIST, JSON.stringify(list));
  } catch {
    // a browser may forbid it: then j and k move in lists alone
  }
}

function moveInList(step) {
  const now = items.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : items.length - 1) : now + step;
  if (next === items.length) document.querySelector("a[rel=next]")?.click();
  items[next]?.focus();
}

/** Returns where the messages before and after the one that is shown are, null where there are none. */
function neighbours() {
  const { next, paths } = remembered();
  const now = paths.findIndex((path) => lastSegment(path) === lastSegment(location.pathname));
  return now < 0 ? [null, null] : [paths[now - 1] ?? null, paths[now + 1] ?? next];
}

function moveToMessage(step) {
  const path = neighbours()[step > 0 ? 1 : 0];
  if (path) location.assign(path);
}

function fillLinks() {
  const [previous, next] = neighbours();
  for (const [name, path] of Object.entries({ list: remembered().here, previous, next })) {
    const link = nav.querySelector(`[data-${name}]`);
    if (path) {
      link.href = path;
      link.hidden = false;
    }
  }
}

/** Teaches the line that has the focus; the answer stands in the line. */
async function teachLine(action) {
  const line = document.activeElement?.closest("tr");
  const answer = line?.querySelector("[data-learned]");
  const item = line?.querySelector("td > a");
  if (!answer || !item) return;
  answer.textContent = "…";
  const body = new URLSearchParams({ csrf: teaching.elements.csrf.value, action, id: lastSegment(item.pathname) });
  try {
    const page = await getFragment("/ui/messages", { method: "POST", body });
    answer.textContent = (page.querySelector("[data-result]") ?? page).textContent.trim();
  } catch {
    answer.textContent = teaching.dataset.failed;
  }
}

function pressButton(key) {
  document.querySelector(`button[data-key="${key}"]`)?.click();
}

const move = items.length ? moveInList : moveToMessage;

if (items.length) remember();
if (nav) fillLinks();
onKey("j", () => move(1));
onKey("k", () => move(-1));
for (const [key, action] of Object.entries(LESSONS)) {
  onKey(key, () => (teaching ? teachLine(action) : pressButton(key)));
}
if (help) {
  help.hidden = false;
  onKey("?", () => {
    help.open = !help.open;
    help.querySelector("summary").focus();
  });
}

// What the scripts of several views need. A view works without any of it.
//
// It is only imported: a page that named it with its version as well would run it twice.

/** Returns the answer to a request of a script. Where the session has ended, the login is shown instead. */
async function ask(path, options = {}) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  if (response.status === 403 && response.headers.get("X-Login") === "needed") {
    location.assign(`/ui/login?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
  return response;
}

/** Returns the data of a path. Throws an Error where the answer is a refusal. */
export async function getJson(path, options = {}) {
  const response = await ask(path, options);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** Returns the content of a page without the layout, as a DocumentFragment; that of a refusal too. */
export async function getFragment(path, options = {}) {
  const response = await ask(path, { ...options, headers: { "X-Fragment": "1", ...options.headers } });
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  return template.content;
}

/** Calls `act` when the reader presses the key, except in a field or with Ctrl, Alt or Meta. */
export function onKey(key, act) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key !== key || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act(event);
  });
}

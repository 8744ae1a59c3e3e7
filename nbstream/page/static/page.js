// What the scripts of several views need. A view works without any of it.
//
// It is only imported: a page that named it with its version as well would run it twice.

/**
 * Returns the content of a page without the layout, as a DocumentFragment; that of a refusal too. Where the session
 * has ended, the login is shown instead.
 */
export async function getFragment(path, options = {}) {
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
export function onKey(key, act) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key !== key || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act(event);
  });
}

// What the scripts of all views need. A view works without any of it.

/** Says a text to screen readers, in the region that the layout has for that. */
export function announce(text) {
  const region = document.getElementById("announcer");
  region.textContent = "";
  region.textContent = text;
}

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

/** Sends a form as the button that was pressed would, and returns the content of the answer. */
export function sendForm(form, submitter = null) {
  const body = new URLSearchParams(new FormData(form, submitter));
  return getFragment(form.getAttribute("action"), { method: "POST", body });  // form.action may be a field
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

// A hidden button with data-copy="ID" is shown, and copies the text of that element. Over plain HTTP from another
// machine, browsers have no clipboard.
for (const button of navigator.clipboard ? document.querySelectorAll("button[data-copy]") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    announce(button.dataset.copied ?? "");
  });
}

// A hidden button with data-copy="ID" is shown, and copies the text of that element; the element "ID-copied" says so
// then. Over plain HTTP from another machine, browsers have no clipboard.
for (const button of navigator.clipboard ? document.querySelectorAll("button[data-copy]") : []) {
  button.hidden = false;
  const copied = document.getElementById(`${button.dataset.copy}-copied`);
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    copied.textContent = "";
    try {
      await navigator.clipboard.writeText(source.textContent);
      copied.textContent = copied.dataset.text;
    } catch {
      getSelection().selectAllChildren(source); // the browser forbids it: the reader copies what is selected
    }
  });
}

// The panel, which can be hidden, and keys of the page.
// @ts-check

/** Returns true while a dialog is open: the dialog then receives the keys. */
export const hasDialog = () => document.querySelector("dialog[open]") !== null;

/** Returns true if a key writes or selects something. @param {KeyboardEvent} event */
export function isTaken(event) {
  const target = event.target;
  if (hasDialog() || target instanceof HTMLSelectElement) return true;
  if (target instanceof HTMLInputElement && target.type === "number") return true;
  // Space presses these.
  return event.key === " " && target instanceof Element && target.matches("button, input, summary");
}

/** Calls `act` with each key that only the page receives. @param {(key: string) => void} act */
export function listenToTyping(act) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTaken(event)) return;
    if (event.key === " ") event.preventDefault();
    act(event.key);
  });
}

/**
 * Hides and shows the panel by its buttons, and closes dialogs by a click next to them. The function returned shows
 * the panel, hides it, or without a value changes which.
 * @param {HTMLElement} view @returns {(shown?: boolean) => void}
 */
export function listenToPanel(view) {
  const [hide, show] = ["panel-hide", "panel-show"].map((id) => document.getElementById(id));
  const set = (shown = document.body.classList.contains("bare")) => {
    document.body.classList.toggle("bare", !shown);
    if (show) show.hidden = shown;
    if (!shown) view.focus();
  };
  hide?.addEventListener("click", () => set(false));
  show?.addEventListener("click", () => set(true));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog[open]"))?.close();
  });
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
  return set;
}

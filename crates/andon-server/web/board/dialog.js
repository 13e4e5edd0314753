// A modal dialog. Its style sheet is loaded with this module, before there is a dialog.
//
// 1. A key that is held down presses nothing: it was pressed for what was there before.
// 2. When a dialog changes its content, its heading gets the focus, so that no key presses something that nobody has read.

import { byId, fill, h, styled } from "../dom.js";

styled("board/question.css");

/**
 * Opens a dialog. It is removed when it is closed, or with the view.
 * @param {string} name
 * @param {AbortSignal} signal the signal of the view
 * @returns {{box: HTMLDialogElement, close: () => void, signal: AbortSignal}} `signal` is aborted when the dialog is closed
 */
export function dialog(name, signal) {
  const control = new AbortController();
  const root = document.documentElement;
  const closed = () => {
    control.abort();
    box.remove();
    if (!document.querySelector("dialog.question[open]")) delete root.dataset.dimmed;
  };
  const held = (/** @type {KeyboardEvent} */ event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); };
  const box = h("dialog", { class: "question", "aria-label": name, onclose: closed, onkeydown: held });
  const close = () => box.close();
  byId("view").append(box);
  signal.addEventListener("abort", close, { once: true, signal: control.signal });
  box.showModal();
  root.dataset.dimmed = "";
  return { box, close, signal: AbortSignal.any([signal, control.signal]) };
}

/** Replaces the content of a dialog (invariant 2). */
export function turn(/** @type {HTMLElement} */ box, /** @type {HTMLElement} */ name, /** @type {unknown[]} */ ...rest) {
  name.tabIndex = -1;
  fill(box, name, ...rest);
  name.focus();
}

/** @type {(text: string, onclick: () => void, more?: Record<string, unknown>) => HTMLButtonElement} */
export const button = (text, onclick, more) => h("button", { type: "button", onclick, ...more }, text);

/** The checkbox for stopping without grace. */
export function nowChoice(/** @type {string} */ id) {
  const input = h("input", { type: "checkbox", id });
  const element = h("label", { class: "check" }, input, " Stop now, without waiting for tools to finish");
  /** @type {() => "now" | "graceful"} */
  const force = () => (input.checked ? "now" : "graceful");
  return { element, force };
}

// A question that stands before everything else. Its style comes with it, before there is one.
//
// 1. A key that is held down answers nothing: it was pressed for what was there before.
// 2. When a dialog says something else, its first words have the focus: no key hits what nobody has read.

import { byId, fill, h, styled } from "../dom.js";

styled("board/question.css");

/**
 * A dialog that is gone when it is closed, or when the view is.
 * @param {string} name
 * @param {AbortSignal} signal the view's
 * @returns {{box: HTMLDialogElement, close: () => void, signal: AbortSignal}} the signal is the dialog's own
 */
export function dialog(name, signal) {
  const control = new AbortController();
  const root = document.documentElement;
  const closed = () => {
    control.abort();
    box.remove();
    if (!document.querySelector("dialog.question[open]")) delete root.dataset.dimmed;
  };
  const held = (event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); };
  const box = h("dialog", { class: "question", "aria-label": name, onclose: closed, onkeydown: held });
  const close = () => box.close();
  byId("view").append(box);
  signal.addEventListener("abort", close, { once: true, signal: control.signal });
  box.showModal();
  root.dataset.dimmed = "";
  return { box, close, signal: AbortSignal.any([signal, control.signal]) };
}

/** Lets a dialog say something else (invariant 2). */
export function turn(box, name, ...rest) {
  name.tabIndex = -1;
  fill(box, name, ...rest);
  name.focus();
}

/** A button. */
export const button = (text, onclick, more) => h("button", { type: "button", onclick, ...more }, text);

/** The choice to wait for nothing. */
export function nowChoice(id) {
  const input = h("input", { type: "checkbox", id });
  const element = h("label", { class: "check" }, input, " Stop now, without waiting for tools to finish");
  return { element, force: () => (input.checked ? "now" : "graceful") };
}

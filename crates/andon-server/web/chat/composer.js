// The input and the button beside it: Send, or Stop while a run is in progress.
//
// 1. The button keeps its place and size, and says what its next press does.
// 2. A press shows in the same frame, before anything is sent to the server.
// 3. A double click on Send does not stop, and one on Stop does not send: right after the button has changed, presses are ignored.
//    Escape is never ignored.
// 4. A draft is never lost: it is kept for this tab until it has been accepted.

import { may, serverIsGone } from "../api.js";
import { fill, h, write } from "../dom.js";
import { store, stored } from "./store.js";
import { WORDS } from "../stop.js";
import { number } from "../words.js";

/** How long presses are ignored after the button has changed, in milliseconds. */
const HASTE = 350;
/** About the most that the server accepts; browsers get slow with longer texts. */
const MOST = 1_000_000;

/** @typedef {"send" | NextForce | "unsent"} Mode what the next press does: it sends, or stops with this force */

/** @type {Record<Mode, string[]>} the label and the hint of the button */
const MODES = { send: ["Send", "Enter"], ...WORDS.chat };
const IN_PROGRESS = "An answer is in progress. Press Escape to stop it, or queue your prompt.";
const NOT_YOURS = "An answer is in progress, and your key cannot stop it. You can queue your prompt.";
const STALLED = "The previous run has stalled. Your text is kept here; send it when that run has settled.";
const GONE = "The server is not responding. Your text is kept here; press Queue to send it when the server is back.";

export class Composer {
  /** @param {{draftKey: () => string, onSend: (text: string, next?: boolean) => void, onStop: () => void, isStalled: () => boolean}} how */
  constructor(how) {
    this.how = how;
    /** @type {Mode} */
    this.mode = "send";
    this.changedAt = -Infinity;
    /** Changes of the button before this do not count, since nobody saw them. */
    this.isReady = false;
    /** Whether sending is disabled. Runs can still be stopped. */
    this.isClosed = false;
    this.input = h("textarea", { id: "prompt", rows: "1", placeholder: "Type a prompt", "aria-label": "Prompt", dir: "auto",
      enterkeyhint: "send", oninput: () => this.typed(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onpaste: (/** @type {ClipboardEvent} */ event) => this.paste(event) });
    this.label = h("b");
    this.hint = h("small");
    this.button = h("button", { type: "button", class: "act", onclick: () => this.press() }, this.label, this.hint);
    this.next = h("button", { type: "button", class: "next", hidden: true, onclick: () => this.send(true) }, "Queue");
    this.problem = h("p", { class: "problem small", role: "alert" });
    this.element = h("form", { class: "composer", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      this.problem, h("div", { class: "write" }, this.input, h("div", { class: "presses" }, this.next, this.button)));
    this.show();
  }

  /** Changes what the button does. */
  become(/** @type {Mode} */ mode) {
    if (mode === this.mode) return;
    if (this.isReady && (mode === "send") !== (this.mode === "send")) this.changedAt = performance.now();
    this.mode = mode;
    this.show();
  }

  show() {
    const [label, hint] = MODES[this.mode];
    const { button, mode } = this;
    write(this.label, label);
    write(this.hint, hint);
    button.dataset.mode = mode;
    button.disabled = mode === "send" && this.isClosed;
    button.hidden = mode !== "send" && !may("run:cancel");
    button.classList.toggle("strong", mode === "send");
    button.classList.toggle("stop", mode !== "send");
    if (mode !== "send" && mode !== "graceful") button.dataset.pressed = "";
    else delete button.dataset.pressed;
    this.next.hidden = mode === "send" || this.isClosed || !this.input.value.trim();
    write(this.next, mode === "graceful" || serverIsGone() ? "Queue" : "Send");
  }

  press() {
    if (performance.now() - this.changedAt < HASTE) return;
    if (this.mode === "send") this.send();
    else this.how.onStop();
  }

  key(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (event.repeat) return;
    if (this.mode !== "send" && this.input.value.trim() && (this.mode === "graceful" || serverIsGone())) {
      this.complain(this.whyNot());
      return;
    }
    this.send();
    // The key was pressed, not the button, so the next press on the button is meant.
    this.changedAt = -Infinity;
  }

  /** Why the draft is not sent now. */
  whyNot() {
    if (serverIsGone()) return GONE;
    if (this.how.isStalled()) return STALLED;
    return may("run:cancel") ? IN_PROGRESS : NOT_YOURS;
  }

  /** Rejects pasted text that is too long to send. */
  paste(/** @type {ClipboardEvent} */ event) {
    const length = event.clipboardData?.getData("text/plain").length ?? 0;
    if (length + this.input.value.length <= MOST) return;
    event.preventDefault();
    this.complain(`Too long to send: ${number(length)} characters. The limit is ${number(MOST)}.`);
  }

  send(next = false) {
    const text = this.input.value;
    if (!text.trim()) {
      this.input.focus();
      return;
    }
    this.complain("");
    this.set("");
    this.how.onSend(text, next);
  }

  /** Disables sending, and says why. */
  close(/** @type {string} */ why) {
    this.isClosed = this.input.disabled = true;
    this.input.placeholder = why;
    this.show();
  }

  /** Shows a problem above the input. */
  complain(/** @type {unknown[]} */ ...words) {
    fill(this.problem, words);
  }

  /** Puts back a text that was refused, in front of what has been typed since. */
  giveBack(/** @type {string} */ text) {
    const typed = this.input.value;
    this.set(typed.trim() && typed !== text ? `${text}\n\n${typed}` : text);
    this.focus();
  }

  set(/** @type {string} */ text) {
    this.input.value = text;
    this.typed();
  }

  typed() {
    const { input, how } = this;
    store(how.draftKey(), input.value);
    grow(input);
    this.show();
  }

  /** Restores the draft after a reload. */
  restore() {
    this.set(stored(this.how.draftKey()) ?? "");
  }

  focus() {
    this.input.focus({ preventScroll: true });
  }
}

/** Makes the input as high as its content, within the limits of the style sheet. */
function grow(/** @type {HTMLTextAreaElement} */ input) {
  // Measuring a very long text is slow, and it needs the full height anyway.
  if (input.value.length > 20_000) {
    input.style.height = "100rem";
    return;
  }
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

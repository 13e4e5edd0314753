// The input, and the one button beside it: Send, and while a run is in progress Stop.
//
// 1. The button is in one place and of one size, and says what its next press does.
// 2. A press is acknowledged in the same frame, before anything is asked of the server.
// 3. A hasty second press on Send is not a Stop, and one on Stop is not a Send: right after the button has changed what it does, it
//    does nothing. Escape is never taken for haste.
// 4. What was typed is never lost: it is kept for this tab until it has been taken.

import { may, serverIsGone } from "../api.js";
import { fill, h, write } from "../dom.js";
import { store, stored } from "./store.js";
import { WORDS } from "../stop.js";
import { number } from "../words.js";

/** How long after a change a press was meant for what the button was before, in milliseconds. */
const HASTE = 350;
/** The server takes about as many bytes; a browser lays out far more only slowly. */
const MOST = 1_000_000;

const MODES = {
  send: ["Send", "Enter"],
  stop: WORDS.chat.graceful,
  stopping: WORDS.chat.now,
  now: WORDS.chat.none,
  unsent: WORDS.chat.unsent,
};
const IN_PROGRESS = "An answer is in progress. Press Escape to stop it, or queue your prompt.";
const NOT_YOURS = "An answer is in progress, and your key cannot stop it. You can queue your prompt.";
const STALLED = "The previous run has stalled. Your text is kept here; send it when that run has settled.";
const GONE = "The server is not responding. Your text is kept here; press Queue to send it when the server is back.";

export class Composer {
  /** @param {{draftKey: () => string, onSend: (text: string, next?: boolean) => void, onStop: () => void, isStalled: () => boolean}} how */
  constructor(how) {
    this.how = how;
    this.mode = "send";
    this.changedAt = -Infinity;
    /** Before it is, what the button does was not seen to change. */
    this.isReady = false;
    /** Whether nothing can be sent. What runs can be stopped all the same. */
    this.isClosed = false;
    this.input = h("textarea", { id: "prompt", rows: "1", placeholder: "Type a prompt", "aria-label": "Prompt", dir: "auto",
      enterkeyhint: "send", oninput: () => this.typed(), onkeydown: (event) => this.key(event), onpaste: (event) => this.paste(event) });
    this.label = h("b");
    this.hint = h("small");
    this.button = h("button", { type: "button", class: "act", onclick: () => this.press() }, this.label, this.hint);
    this.next = h("button", { type: "button", class: "next", hidden: true, onclick: () => this.send(true) }, "Queue");
    this.problem = h("p", { class: "problem small", role: "alert" });
    this.element = h("form", { class: "composer", onsubmit: (event) => event.preventDefault() },
      this.problem, h("div", { class: "write" }, this.input, h("div", { class: "presses" }, this.next, this.button)));
    this.show();
  }

  /** What the button does next. */
  become(mode) {
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
    if (mode !== "send" && mode !== "stop") button.dataset.pressed = "";
    else delete button.dataset.pressed;
    this.next.hidden = mode === "send" || this.isClosed || !this.input.value.trim();
    write(this.next, mode === "stop" || serverIsGone() ? "Queue" : "Send");
  }

  press() {
    if (performance.now() - this.changedAt < HASTE) return;
    if (this.mode === "send") this.send();
    else this.how.onStop();
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (event.repeat) return;
    if (this.mode !== "send" && this.input.value.trim() && (this.mode === "stop" || serverIsGone())) {
      this.complain(this.whyNot());
      return;
    }
    this.send();
    // It was not the button that was pressed: who presses that now means it.
    this.changedAt = -Infinity;
  }

  /** Why what was typed is not sent now. */
  whyNot() {
    if (serverIsGone()) return GONE;
    if (this.how.isStalled()) return STALLED;
    return may("run:cancel") ? IN_PROGRESS : NOT_YOURS;
  }

  /** What is too long to be sent is not even put in. */
  paste(event) {
    const { length } = event.clipboardData.getData("text/plain");
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

  /** Nothing can be sent from here on, and why. */
  close(why) {
    this.isClosed = this.input.disabled = true;
    this.input.placeholder = why;
    this.show();
  }

  /** Says what is wrong, beside the text that it is about. */
  complain(...words) {
    fill(this.problem, words);
  }

  /** Gives a text back that was not taken; what has been typed since stays behind it. */
  giveBack(text) {
    const typed = this.input.value;
    this.set(typed.trim() && typed !== text ? `${text}\n\n${typed}` : text);
    this.focus();
  }

  set(text) {
    this.input.value = text;
    this.typed();
  }

  typed() {
    const { input, how } = this;
    store(how.draftKey(), input.value);
    grow(input);
    this.show();
  }

  /** What was typed before a reload. */
  restore() {
    this.set(stored(this.how.draftKey()) ?? "");
  }

  focus() {
    this.input.focus({ preventScroll: true });
  }
}

/** As high as what is in it, within what the style allows. */
function grow(input) {
  // The browser counts the lines of a very long text slowly: it is as high as it may be anyway.
  if (input.value.length > 20_000) {
    input.style.height = "100rem";
    return;
  }
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

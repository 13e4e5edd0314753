// Markdown, drawn while it is being written.
//
// 1. A complete block stays as it is; only the last one is redrawn when more arrives.
// 2. However the text is split into pieces, the elements are the same in the end.
// 3. Drawing takes a few milliseconds per frame and continues in the next, so the page stays responsive however much there is. Past
//    a limit, and within a very long line, text is shown plain, in pieces that are laid out when they come into view.

import { BLOCK, Blocks, element } from "./blocks.js";
import { everyFrame, h } from "../dom.js";
import { revealed } from "./inline.js";

/** How many characters of a text are read as markdown, and how many lines that are not code: the rest is plain. */
export const PLAIN_AFTER = 400_000;
const PLAIN_AFTER_LINES = 8_000;
/** How long to draw in one frame, in milliseconds. */
const SHARE = 8;
/** How much is added to the page in one frame, because layout takes time too. */
const MOST_ELEMENTS = 400;
const MOST_CHARACTERS = 200_000;

/** @typedef {import("./blocks.js").Block} Block */

/** Draws a growing text into an element. */
export class Markdown {
  /**
   * @param {HTMLElement} place
   * @param {AbortSignal} [signal] once aborted, nothing more is drawn
   */
  constructor(place, signal) {
    this.place = place;
    /** @type {string[]} */
    this.queue = [];
    this.offset = 0;
    this.taken = 0;
    this.partial = "";
    this.isRest = false;
    this.isPlain = false;
    /** @type {HTMLElement[]} */
    this.tail = [];
    /** @type {Block | null} the block that the tail shows, if it is one */
    this.tailBlock = null;
    this.made = 0;
    this.lines = 0;
    this.blocks = new Blocks((block) => this.put(element(block)));
    this.later = everyFrame(() => this.draw(SHARE), signal);
  }

  /** Adds to the text. */
  write(/** @type {string} */ text) {
    if (!text) return;
    this.queue.push(text);
    this.later();
  }

  /** Draws all of it now. */
  flush() {
    this.draw(Infinity);
  }

  /** Starts over with another text. */
  reset() {
    const { place } = this;
    place.replaceChildren();
    Object.assign(this, {
      queue: [], offset: 0, taken: 0, partial: "", isRest: false, isPlain: false, tail: [], lines: 0,
      blocks: new Blocks((block) => this.put(element(block))),
    });
  }

  draw(/** @type {number} */ share) {
    const end = performance.now() + share;
    const most = this.taken + MOST_CHARACTERS;
    this.made = 0;
    const isEnough = () => performance.now() >= end || this.taken >= most || this.made >= MOST_ELEMENTS;
    while (this.queue.length && (share === Infinity || !isEnough())) this.take();
    this.drawTail();
    if (this.queue.length) this.later();
  }

  put(/** @type {HTMLElement} */ made) {
    this.made += 1 + made.getElementsByTagName("*").length;
    const [first] = this.tail;
    if (first) first.before(made);
    else this.place.append(made);
  }

  /** Takes a line, or as much of one as there is, and at most a block. */
  take() {
    const [piece] = this.queue;
    const piecesEnd = this.offset + BLOCK - this.partial.length;
    const window = piece.slice(this.offset, piecesEnd);
    const stop = this.isPlain ? -1 : window.indexOf("\n");
    const used = stop < 0 ? window : window.slice(0, stop);
    this.partial += used;
    this.advance(piece, used.length + (stop < 0 ? 0 : 1));
    if (stop >= 0) this.line();
    else if (this.partial.length >= BLOCK) this.cut();
  }

  advance(/** @type {string} */ piece, /** @type {number} */ length) {
    this.offset += length;
    this.taken += length;
    if (this.offset < piece.length) return;
    this.queue.shift();
    this.offset = 0;
  }

  line() {
    const text = this.partial.endsWith("\r") ? this.partial.slice(0, -1) : this.partial;
    this.partial = "";
    this.blocks.line(text, this.isRest);
    this.isRest = false;
    this.bound();
  }

  /** A line that is longer than a block, or plain text: adds what has arrived so far to the page. */
  cut() {
    const last = this.partial.charCodeAt(this.partial.length - 1);
    // Do not split a surrogate pair.
    const length = this.partial.length - (last >= 0xd800 && last <= 0xdbff ? 1 : 0);
    const text = this.partial.slice(0, length);
    this.partial = this.partial.slice(length);
    if (this.isPlain) this.put(element({ kind: "plain", text, isJoined: true }));
    else this.blocks.line(text, this.isRest);
    this.isRest = true;
    this.bound();
  }

  bound() {
    if (this.blocks.open?.kind !== "fence") this.lines += 1;
    if (this.isPlain || (this.taken < PLAIN_AFTER && this.lines < PLAIN_AFTER_LINES)) return;
    this.blocks.end();
    this.isPlain = true;
  }

  /** Draws the last block as if the text ended here (invariant 1). */
  drawTail() {
    /** @type {Block[]} */
    const blocks = this.isPlain && this.partial
      ? [{ kind: "plain", text: this.partial, isJoined: true }]
      : this.blocks.peek(this.partial, this.isRest);
    if (blocks.length === 1 && this.goOn(blocks[0])) return;
    for (const old of this.tail) old.remove();
    this.tail = blocks.map((block) => element(block));
    this.tailBlock = blocks.length === 1 ? blocks[0] : null;
    this.place.append(...this.tail);
  }

  /** Code and plain text only grow, so the element stays, with its selection and scroll position. */
  goOn(/** @type {Block} */ block) {
    const { tailBlock, tail: [shown] } = this;
    if (!shown || tailBlock?.kind !== block.kind || Boolean(tailBlock.isJoined) !== Boolean(block.isJoined)) return false;
    if (block.kind !== "fence" && block.kind !== "plain") return false;
    if (tailBlock.info !== block.info) return false;
    const written = block.kind === "fence" ? (block.lines ?? []).join("\n") : block.text ?? "";
    const text = block.kind === "fence" ? revealed(written) : written;
    /** @type {HTMLElement & {written?: string} | null} */
    const place = block.kind === "fence" ? shown.querySelector("code") : shown;
    const old = place?.textContent ?? "";
    if (!place || !text.startsWith(old)) return false;
    if (text.length > old.length) place.append(text.slice(old.length));
    if (block.kind === "fence") place.written = written;
    place.normalize();
    this.tailBlock = block;
    return true;
  }
}

/** A whole text as markdown. */
export function markdown(/** @type {string} */ text) {
  const place = h("div", { class: "said" });
  const drawn = new Markdown(place);
  drawn.write(text);
  drawn.flush();
  return place;
}

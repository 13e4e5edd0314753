// The rows of the board: a grid that has elements only for the rows in view.
//
// 1. However many runs there are, there are only as many row elements as fit the window, and a few more.
// 2. Elements are reused, never recreated, and only changed texts are written.
// 3. A press hits the run that was shown when it started: while someone points at the rows or has the focus there the order is
//    kept, and an element that has the focus is not given to another run.
// 4. Nothing is measured while drawing: sizes are read when the window changes, positions when it is scrolled.

import { part } from "../api.js";
import { COLUMNS, mark, put, stateOf } from "./columns.js";
import { announce, h } from "../dom.js";
import { press, pressStop } from "./presses.js";
import { isLive } from "./roster.js";
import { nextForce, WORDS } from "../stop.js";

const SPARE = 6;
/** How long the order is kept after a finger has left the rows, in milliseconds. */
const AFTER_TOUCH = 2500;

export class Rows {
  /** @type {RowParts[]} the row elements; row i uses the one at i modulo their number */
  #pool = [];
  #height = 40;
  #top = 0;
  #scrolled = 0;
  #isPointed = false;
  #touchedUntil = 0;
  /** @type {string | null} the id of the run that has the keyboard focus */
  #active = null;

  /**
   * @param {Look} look
   * @param {Roster} roster
   * @param {{mayStop: boolean, mayAnswer: boolean, fresh: HTMLElement, onSort: () => void, redraw: () => void,
   *   free: () => void, signal: AbortSignal}} how `fresh` is the button that counts new rows, `free` is called when the order is free again
   */
  constructor(look, roster, how) {
    this.look = look;
    this.roster = roster;
    this.how = how;
    this.head = h("div", { class: "row head", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.headgroup = h("div", { role: "rowgroup", class: "headgroup" }, this.head, how.fresh);
    this.element = h("div", { class: "grid", role: "grid", "aria-label": "Runs", tabindex: "-1", "data-board": true },
      this.headgroup, this.body);
    this.#drawHead();
    this.#listen();
  }

  /** Which columns there are depends on what the server sends. */
  showColumns(/** @type {{hasCost: boolean, hasTenants: boolean}} */ { hasCost, hasTenants }) {
    mark(this.element, "cost", hasCost ? "yes" : undefined);
    mark(this.element, "tenants", hasTenants ? "yes" : undefined);
  }

  /** Whether the order must be kept (invariant 3). */
  isKept() {
    if (!this.look.shown.length) return false;
    const focused = document.activeElement;
    // A button that was clicked keeps the focus too, but nobody is aiming at it any more.
    const isIn = focused !== null && this.body.contains(focused) && focused.matches(":focus-visible");
    return this.#isPointed || isIn || performance.now() < this.#touchedUntil || this.#scrolled > this.#top;
  }

  /** Scrolls back to the first row. */
  toTop() {
    if (this.#scrolled > this.#top) scrollTo({ top: 0 });
  }

  #listen() {
    const { body, how: { signal } } = this;
    body.addEventListener("pointerenter", ({ pointerType }) => { if (pointerType === "mouse") this.#isPointed = true; }, { signal });
    body.addEventListener("pointerleave", () => this.#left(), { signal });
    body.addEventListener("pointerdown", ({ pointerType }) => {
      if (pointerType !== "mouse") this.#touchedUntil = performance.now() + AFTER_TOUCH;
    }, { signal });
    body.addEventListener("focusin", ({ target }) => this.#entered(target), { signal });
    body.addEventListener("focusout", () => setTimeout(() => this.how.redraw()), { signal });
    body.addEventListener("click", (event) => this.#clicked(event), { signal });
    this.element.addEventListener("keydown", (event) => this.#key(event), { signal });
    addEventListener("scroll", () => { this.#scrolled = scrollY; this.how.redraw(); }, { signal, passive: true });
    addEventListener("resize", () => this.measure(), { signal });
  }

  #left() {
    this.#isPointed = false;
    this.how.free();
  }

  /** Reads the sizes, after the window or what is above the rows has changed (invariant 4). */
  measure() {
    if (this.element.hidden) return;
    this.#scrolled = scrollY;
    const under = Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--under")) || 0;
    // How far the page can be scrolled before the first row slides under the sticky header.
    this.#top = this.body.getBoundingClientRect().top + scrollY - under - this.headgroup.offsetHeight;
    const height = Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    if (height) this.#height = height;
    const wanted = Math.ceil(innerHeight / this.#height) + 2 * SPARE;
    while (this.#pool.length < wanted) this.#pool.push(this.#make());
    for (const spare of this.#pool.splice(wanted)) spare.element.remove();
    for (const one of this.#pool) one.at = -1;
    this.how.redraw();
  }

  #make() {
    /** @type {RowElement} */
    const element = h("div", { class: "row", role: "row", tabindex: "-1", hidden: true });
    const parts = COLUMNS.map((column) => {
      const cell = h("div", { role: "gridcell", class: `cell ${column.isNumber ? "number" : ""}`, "data-column": column.key });
      element.append(cell);
      return column.make(cell);
    });
    const label = document.createTextNode("");
    const stop = h("button", { type: "button", class: "stop", tabindex: "-1" }, label);
    const yes = h("a", { class: "yes", tabindex: "-1", hidden: true }, "Review");
    element.append(h("div", { role: "gridcell", class: "cell act" }, yes, stop));
    this.body.append(element);
    /** @type {RowParts} */
    const one = { element, parts, stop, label, yes, entry: null, at: -1 };
    element.one = one;
    return one;
  }

  /** Draws the rows in view. */
  draw() {
    const { shown } = this.look;
    const height = `${shown.length * this.#height}px`;
    if (this.body.style.height !== height) {
      this.body.style.height = height;
      this.element.setAttribute("aria-rowcount", `${shown.length + 1}`);
    }
    const count = this.#pool.length;
    if (!count) return;
    const first = Math.max(0, Math.min(Math.floor((this.#scrolled - this.#top) / this.#height) - SPARE, shown.length - count));
    for (let at = first; at < first + count; at += 1) this.#place(this.#pool[at % count], at, shown[at]);
  }

  #place(/** @type {RowParts} */ one, /** @type {number} */ at, /** @type {Entry | undefined} */ entry) {
    if (!entry) {
      if (!one.element.hidden) this.#give(one, null);
      one.element.hidden = true;
      one.at = -1;
      return;
    }
    if (one.entry !== entry) this.#give(one, entry);
    if (one.at !== at) {
      one.at = at;
      one.element.style.transform = `translateY(${at * this.#height}px)`;
      one.element.setAttribute("aria-rowindex", `${at + 2}`);
    }
    if (one.element.hidden) one.element.hidden = false;
    this.#write(one, entry);
  }

  /** Gives an element to another run. If it has the focus, the grid takes it: a key must not hit the other run. */
  #give(/** @type {RowParts} */ one, /** @type {Entry | null} */ entry) {
    if (one.element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
    one.entry = entry;
    if (!entry) return;
    const { app, session, user } = entry.row;
    one.element.dataset.run = entry.id;
    one.yes.setAttribute("href", `#/chat/${part(app)}/${part(session)}?user=${part(user)}`);
    this.#setActive(one);
  }

  #setActive(/** @type {RowParts} */ one) {
    const index = one.entry && one.entry.id === this.#active ? "0" : "-1";
    if (one.element.getAttribute("tabindex") === index) return;
    for (const item of [one.element, one.stop, ...one.element.querySelectorAll("a")]) item.setAttribute("tabindex", index);
  }

  #write(/** @type {RowParts} */ one, /** @type {Entry} */ entry) {
    const { parts } = one;
    for (let at = 0; at < parts.length; at += 1) COLUMNS[at].draw(parts[at], entry, this.roster);
    const state = stateOf(entry);
    mark(one.element, "state", state);
    const own = press(entry);
    const isUnsent = own?.isUnsent;
    const isAsked = state === "waiting" && this.how.mayAnswer && !isUnsent;
    if (one.yes.hidden === isAsked) one.yes.hidden = !isAsked;
    const isOpen = isLive(entry) && this.how.mayStop;
    if (one.stop.hidden === isOpen) {
      // Keep the focus in the row.
      if (one.stop === document.activeElement) one.element.focus({ preventScroll: true });
      one.stop.hidden = !isOpen;
    }
    if (!isOpen) return;
    // A press does what the button said, whatever has happened to the run since.
    one.next = nextForce(own ? own.force : entry.row.cancel?.force);
    const { label, name, pressed, title = "" } = WORDS.row[isUnsent ? "unsent" : one.next];
    put(one.label, label);
    mark(one.stop, "pressed", pressed);
    const spoken = `${name}: ${entry.row.title}`;
    if (one.stop.getAttribute("aria-label") !== spoken) {
      one.stop.setAttribute("aria-label", spoken);
      one.stop.title = title;
    }
  }

  /* What people do. */

  #one(/** @type {EventTarget | null} */ target) {
    if (!(target instanceof Element)) return undefined;
    /** @type {RowElement | null} */
    const element = target.closest(".row");
    return element?.one;
  }

  #clicked(/** @type {MouseEvent} */ { target }) {
    const one = this.#one(target);
    if (!one?.entry || !(target instanceof Element)) return;
    if (target.closest(".stop")) {
      this.#stop(one);
    } else if (!target.closest("a, button") && !String(getSelection())) {
      this.#open(one.entry);
    }
  }

  #stop(/** @type {RowParts} */ one) {
    const { entry, next } = one;
    if (!entry || !next || next === "none") return;
    // Only this row, so that the press shows in the next frame.
    const changed = () => (one.entry === entry ? this.#write(one, entry) : this.how.redraw());
    pressStop(entry.id, next, entry.row.title || "the run", changed);
  }

  #open(/** @type {Entry} */ entry) { location.hash = `#/run/${part(entry.id)}`; }

  #entered(/** @type {EventTarget | null} */ target) {
    const one = this.#one(target);
    if (!one?.entry || one.entry.id === this.#active) return;
    this.#activate(one.entry.id);
  }

  /** Gives the keyboard focus to the row of another run. */
  #activate(/** @type {string | null} */ id) {
    this.#active = id;
    for (const each of this.#pool) this.#setActive(each);
  }

  #key(/** @type {KeyboardEvent} */ event) {
    const { target } = event;
    if (event.ctrlKey || event.altKey || event.metaKey || !(target instanceof Element) || target.closest(".head")) return;
    const { shown } = this.look;
    const page = Math.max(1, Math.floor(innerHeight / this.#height) - 4);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -shown.length, End: shown.length };
    if (event.key in steps) {
      event.preventDefault();
      const at = shown.findIndex(({ id }) => id === this.#active);
      this.focus(Math.max(0, Math.min(shown.length - 1, at + steps[event.key])));
    } else if (event.key === "Enter" && target.matches(".row")) {
      event.preventDefault();
      const entry = this.#one(target)?.entry;
      if (entry) this.#open(entry);
    }
  }

  /** Moves the focus to the row at an index, and scrolls it into view. */
  focus(/** @type {number} */ at) {
    const entry = this.look.shown[at];
    if (!entry) return;
    this.#active = entry.id;
    const top = this.#top + at * this.#height;
    // Above it are the sticky bars and the header.
    const space = innerHeight - (this.body.getBoundingClientRect().top + scrollY - this.#top) - this.#height;
    if (top < this.#scrolled) scrollTo({ top });
    else if (top > this.#scrolled + space - this.#height) scrollTo({ top: top - space + this.#height });
    this.#scrolled = scrollY;
    this.draw();
    const one = this.#pool.find((each) => each.entry === entry && !each.element.hidden);
    for (const each of this.#pool) this.#setActive(each);
    one?.element.focus({ preventScroll: true });
  }

  /** If no row was focused yet, Tab leads to the first one. */
  offerTab() {
    const { shown } = this.look;
    if (shown.some(({ id }) => id === this.#active)) return;
    this.#activate(shown[0]?.id ?? null);
  }

  #drawHead() {
    const { signal } = this.how;
    for (const { key, name, isNumber } of COLUMNS) {
      const button = h("button", { type: "button", class: "plain sort" }, name);
      button.addEventListener("click", () => {
        this.look.sortBy(key);
        this.sorted();
        announce(`Sorted by ${name}, ${this.look.isDown ? "descending" : "ascending"}.`);
        this.how.onSort();
      }, { signal });
      this.head.append(h("div", { role: "columnheader", class: `cell ${isNumber ? "number" : ""}`, "data-column": key }, button));
    }
    this.head.append(h("div", { role: "columnheader", class: "cell act" }, h("span", { class: "unseen" }, "Actions")));
    this.sorted();
  }

  /** Shows the sort order in the header. */
  sorted() {
    /** @type {NodeListOf<HTMLElement>} */
    const cells = this.head.querySelectorAll("[data-column]");
    for (const cell of cells) {
      const isIt = cell.dataset.column === this.look.column;
      if (isIt) cell.setAttribute("aria-sort", this.look.isDown ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }
}

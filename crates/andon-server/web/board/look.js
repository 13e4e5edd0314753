// Which runs are shown, and in which order.
//
// 1. The filter and the order are in the address, so that they can be linked to.
// 2. While the order is kept (someone points at the rows or has the focus there) no run moves: what you aim at is what you hit.
//    Runs that arrive meanwhile are counted, and shown when the order is free again.
// 3. A run that settles stays where it was for a while.

import { COLUMNS } from "./columns.js";
import { isLive } from "./roster.js";
import { shownState } from "../words.js";

/** How long a settled run stays among the live ones, in milliseconds. */
const LINGER = 30_000;
const NAMES = ["app", "user", "state", "text"];

export class Look {
  /** @type {Record<string, string>} */
  filter = {};
  column = "began";
  isDown = true;
  /** @type {Entry[]} */
  shown = [];
  /** How many more would be shown if the order were not kept. */
  fresh = 0;
  #round = 0;

  /** @param {URLSearchParams} query */
  constructor(query) {
    for (const name of NAMES) this.filter[name] = query.get(name) ?? "";
    const sort = query.get("sort") ?? "";
    const column = COLUMNS.find(({ key }) => key === sort.replace(/^-/, ""));
    if (column) [this.column, this.isDown] = [column.key, sort.startsWith("-")];
  }

  /** Whether a filter is set. */
  get isNarrow() { return NAMES.some((name) => this.filter[name] !== ""); }

  /** Whether the filter is exactly an app, a user or both, so that a selector of the server can express it. */
  get isSelector() { return this.isNarrow && !this.filter.state && !this.filter.text; }

  /** The address of this view (invariant 1). */
  address() {
    const query = new URLSearchParams();
    for (const name of NAMES) if (this.filter[name]) query.set(name, this.filter[name]);
    if (this.column !== "began" || !this.isDown) query.set("sort", (this.isDown ? "-" : "") + this.column);
    const text = query.toString();
    return text ? `#/?${text}` : "#/";
  }

  /** Sorts by a column; a second time reverses the order. */
  sortBy(/** @type {string} */ key) {
    const column = COLUMNS.find((one) => one.key === key);
    this.isDown = key === this.column ? !this.isDown : column?.isDown === true;
    this.column = key;
  }

  /** Whether a run matches the filter, whatever its state. */
  isMeant(/** @type {Entry} */ { row }) {
    const { app, user, text } = this.filter;
    if (app && row.app !== app) return false;
    if (user && row.user !== user) return false;
    if (!text) return true;
    const wanted = text.toLowerCase();
    return [row.title, row.session, row.run_id, row.user].some((said) => said?.toLowerCase().includes(wanted));
  }

  /** Whether a run has a row now, or would have one if the filter had this state. */
  isShown(/** @type {Entry} */ entry, /** @type {number} */ now, state = this.filter.state) {
    if (state && shownState(entry.row) !== state) return false;
    if (!state && !isLive(entry) && now - (entry.ended ?? 0) > LINGER) return false;
    return this.isMeant(entry);
  }

  /** The live runs that match the filter: what "Stop these" stops. */
  meant(/** @type {Roster} */ roster) {
    const { state } = this.filter;
    return roster.live().filter((entry) => (!state || shownState(entry.row) === state) && this.isMeant(entry));
  }

  /** Filters and sorts again. With `isKept` the order stays (invariant 2). */
  update(/** @type {Roster} */ roster, /** @type {boolean} */ isKept) {
    const now = roster.now();
    if (isKept) {
      this.fresh = 0;
      for (const entry of roster.entries.values()) {
        if (entry.round !== this.#round && this.isShown(entry, now)) this.fresh += 1;
      }
      return;
    }
    const column = COLUMNS.find(({ key }) => key === this.column) ?? COLUMNS[0];
    /** @type {Entry[]} */
    const found = [];
    for (const entry of roster.entries.values()) if (this.isShown(entry, now)) found.push(entry);
    this.shown = sorted(found, column, this.isDown, roster);
    this.#round += 1;
    this.fresh = 0;
    for (const entry of found) entry.round = this.#round;
  }
}

/**
 * Sorts by rank, and newest first within a rank.
 * @param {Entry[]} entries
 * @param {Column<any>} column
 * @param {boolean} isDown
 * @param {Roster} roster
 */
function sorted(entries, column, isDown, roster) {
  const ranks = new Map(entries.map((entry) => [entry, column.rank(entry, roster)]));
  const sign = isDown ? -1 : 1;
  return entries.sort((a, b) => {
    const [one, other] = [ranks.get(a) ?? "", ranks.get(b) ?? ""];
    if (one !== other) return one < other ? -sign : sign;
    return b.began - a.began || b.row.n - a.row.n;
  });
}

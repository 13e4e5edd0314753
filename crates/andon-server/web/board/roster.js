// All runs that the board knows of, from its feed.
//
// 1. A run has one entry, which is updated in place: whoever holds an entry sees the current state of the run.
// 2. After a break the server sends all runs again. Runs that are missing then are forgotten, so that nothing that settled
//    meanwhile looks alive. Until the list is complete the old rows stay, marked as old.
// 3. Times are the server's, because the clock of this machine may be wrong.
// 4. Memory is bounded: settled runs, seconds of history and samples all have a maximum.

/** How many settled runs are kept. */
const SETTLED = 1000;
/** How many seconds of history are kept. */
const PAST = 300;
/** The window over which pieces per second are measured, in milliseconds. */
const WINDOW = 5000;
const SAMPLES = 7;

export class Roster {
  /** @type {Map<number, Entry>} by row number, which is specific to a connection */
  #byNumber = new Map();
  /** @type {Map<string, Entry>} */
  entries = new Map();
  /** @type {Map<string, Entry> | null} the runs of a new connection until its list is complete */
  #coming = null;
  /** The server's clock minus ours. */
  #ahead = 0;
  /** @type {Set<(changes: Changes) => void>} */
  #watchers = new Set();
  /** @type {Entry[]} */
  #settled = [];
  /** @type {Api.Line | null} the state of the line, if known */
  line = null;
  /** @type {Api.Second[]} the last seconds, oldest first */
  past = [];
  /** Whether the list of runs is complete. */
  isReady = false;
  /** Whether the data may be out of date. */
  isOld = false;

  /** @type {number | null} when the connection was lost, while it is */
  #goneAt = null;

  /** The server's time in milliseconds. It stands still while there is no connection. */
  now() { return this.#goneAt ?? Date.now() + this.#ahead; }

  /**
   * Calls `watcher` after each change with what has changed.
   * @param {(changes: Changes) => void} watcher
   * @param {AbortSignal} signal
   */
  watch(watcher, signal) {
    this.#watchers.add(watcher);
    signal.addEventListener("abort", () => this.#watchers.delete(watcher), { once: true });
  }

  /** The entries of runs that have not settled. */
  live() { return [...this.entries.values()].filter(isLive); }

  /** The connection was lost (invariant 2). */
  broke() {
    if (this.isOld) return;
    this.#goneAt = this.now();
    this.isOld = true;
    this.#tell(new Set(["old"]));
  }

  /** Applies items of the feed. */
  apply(/** @type {Api.BoardItem[]} */ items) {
    /** @type {Changes} */
    const changes = new Set();
    for (const item of items) this.#take(item, changes);
    this.#tell(changes);
  }

  /** Something that is shown with the runs has changed, such as a press on Stop. */
  drawAgain() { this.#tell(new Set(["press"])); }

  /** Takes the state of the line from a response. */
  setLine(/** @type {Api.Line} */ line) {
    this.line = { state: line.state, holds: line.holds };
    this.#tell(new Set(["line"]));
  }

  #tell(/** @type {Changes} */ changes) {
    if (changes.size) for (const watcher of [...this.#watchers]) watcher(changes);
  }

  #take(/** @type {Api.BoardItem} */ item, /** @type {Changes} */ changes) {
    switch (item.type) {
      case "board": return this.#begin(item, changes);
      case "runs":
        for (const row of item.runs) this.#put(row);
        changes.add("rows");
        return;
      case "gone":
        for (const n of item.rows) this.#leave(n);
        changes.add("rows");
        return;
      case "ready": return this.#whole(changes);
      case "second": return this.#second(item, changes);
      case "line":
        this.line = item.line;
        changes.add("line");
        return;
      default: // From a newer server: nothing that we know how to show.
    }
  }

  #begin(/** @type {Api.BoardItemOf<"board">} */ board, /** @type {Changes} */ changes) {
    this.#goneAt = null;
    this.#ahead = Date.parse(board.now) - Date.now();
    this.#byNumber = new Map();
    // The first time there are no old rows to keep, so rows show as they arrive.
    this.#coming = new Map();
    if (!this.entries.size) this.entries = this.#coming;
    this.isReady = false;
    this.line = board.line;
    this.past = board.past.slice(-PAST);
    changes.add("line").add("second");
  }

  #whole(/** @type {Changes} */ changes) {
    if (this.#coming) this.entries = this.#coming;
    this.#coming = null;
    this.#settled = [...this.entries.values()].filter((entry) => !isLive(entry)).sort((a, b) => (a.ended ?? 0) - (b.ended ?? 0));
    for (const entry of this.#settled) entry.isOver = true;
    this.isReady = true;
    this.isOld = false;
    changes.add("rows").add("ready").add("old");
  }

  #put(/** @type {Row} */ row) {
    const known = this.#coming ?? this.entries;
    // A run keeps its entry across a break.
    const entry = known.get(row.run_id) ?? this.entries.get(row.run_id) ?? made(row);
    entry.row = row;
    entry.ended = row.settled_at ? Date.parse(row.settled_at) : null;
    this.#count(entry, row.pieces);
    known.set(row.run_id, entry);
    this.#byNumber.set(row.n, entry);
    if (!isLive(entry) && !this.#coming) this.#settle(entry);
  }

  /** Records that a run has settled, and drops the oldest settled runs (invariant 4). */
  #settle(/** @type {Entry} */ entry) {
    if (entry.isOver) return;
    entry.isOver = true;
    this.#settled.push(entry);
    for (const old of this.#settled.splice(0, this.#settled.length - SETTLED)) {
      this.entries.delete(old.id);
      this.#byNumber.delete(old.row.n);
    }
  }

  /** The server dropped a row. It only drops settled runs, so a run that looks alive has settled unseen. */
  #leave(/** @type {number} */ n) {
    const entry = this.#byNumber.get(n);
    if (!entry) return;
    if (isLive(entry)) {
      entry.row = { ...entry.row, state: "settled", isUnseen: true };
      entry.ended = this.now();
    }
    this.#byNumber.delete(n);
    (this.#coming ?? this.entries).delete(entry.id);
  }

  #second(/** @type {Api.BoardItemOf<"second">} */ second, /** @type {Changes} */ changes) {
    const { type, pieces, ...rest } = second;
    this.past.push(rest);
    if (this.past.length > PAST) this.past.shift();
    for (const [n, count] of pieces ?? []) {
      const entry = this.#byNumber.get(n);
      if (!entry) continue;
      entry.row.pieces = count;
      this.#count(entry, count);
    }
    changes.add("second");
  }

  /** Adds a sample of the number of pieces: pairs of a time and a count, oldest first. */
  #count(/** @type {Entry} */ entry, /** @type {number | undefined} */ count) {
    const { samples } = entry;
    if (count === undefined || samples.at(-1) === count) return;
    samples.push(this.now(), count);
    if (samples.length > 2 * SAMPLES) samples.splice(0, 2);
  }

  /** Pieces per second over the last seconds. */
  rate(/** @type {Entry} */ { samples, row }) {
    if (samples.length < 4 || row.state === "settled") return 0;
    const now = this.now();
    const from = now - WINDOW;
    const last = samples.length - 2;
    if (samples[last] < from) return 0;
    // Start from the last sample before the window, or else from the first one.
    let base = 0;
    while (base + 2 < last && samples[base + 2] <= from) base += 2;
    const time = now - Math.max(samples[base], from);
    return (samples[last + 1] - samples[base + 1]) / Math.max(time / 1000, 1);
  }
}

/** Whether a run has not settled. */
export const isLive = (/** @type {Entry} */ entry) => entry.row.state !== "settled";

/** @returns {Entry} */
function made(/** @type {Row} */ row) {
  return { row, id: row.run_id, began: Date.parse(row.accepted_at), ended: null, samples: [], round: 0, isOver: false };
}

// When things happened in a run, in milliseconds since it started.
//
// 1. Times are taken from the monotonic clock of the process that drove the run.
// 2. Another owner of the run is another process with another monotonic clock. Its first event is placed by wall time, and never
//    before an event of an earlier owner.

/** Microseconds since 1970. `Date` keeps only milliseconds. */
export function wallUs(/** @type {string} */ wall) {
  const fraction = /\.(\d+)/.exec(wall)?.[1] ?? "";
  return Math.floor(Date.parse(wall) / 1000) * 1e6 + Number(fraction.padEnd(6, "0").slice(0, 6));
}

/** The clock of one run. */
export class Instants {
  /** @type {Map<number, {mono: number, ms: number}>} */
  #owners = new Map();
  /** @type {number | null} */
  #beginUs = null;
  /** The latest instant so far. */
  latest = 0;

  /** When a record was written. */
  of(/** @type {{epoch: number, at: Api.Stamp}} */ record) {
    return this.at(record.epoch, record.at);
  }

  /** When this owner made a stamp. It is before the start of the run only if a clock is wrong. */
  at(/** @type {number} */ epoch, /** @type {Api.Stamp} */ stamp) {
    const owner = this.#owners.get(epoch) ?? this.#meet(epoch, stamp);
    const ms = owner.ms + (stamp.mono_us - owner.mono) / 1000;
    if (ms > this.latest) this.latest = ms;
    return ms;
  }

  #meet(/** @type {number} */ epoch, /** @type {Api.Stamp} */ stamp) {
    const us = wallUs(stamp.wall);
    const begin = (this.#beginUs ??= us);
    const owner = { mono: stamp.mono_us, ms: Math.max((us - begin) / 1000, this.latest) };
    this.#owners.set(epoch, owner);
    return owner;
  }

  /** Whether more than one process owned the run: then some times are by wall clock. */
  get isMixed() { return this.#owners.size > 1; }
}

// The facts of a run in order, with what was streamed between them counted and not kept.
//
// 1. Facts are kept as they came. Of streamed text only its length is kept: it is whole in the message that follows.
// 2. A line is a number: of facts `line & 1 === 0`, of what was streamed behind a fact `line & 1 === 1`; `line >> 1` is the
//    place of the fact. So an unfiltered list of a million facts is an array of numbers.

/** @typedef {{text: number, thinking: number, tool_input: number, tool_output: number, lost: boolean}} Streamed */

const KINDS = ["text", "thinking", "tool_input", "tool_output"];

export class EventLog {
  /** @type {any[]} */
  facts = [];
  /** When each fact was, in milliseconds since the run began. */
  times = [];
  /** @type {Map<number, Streamed>} what was streamed behind a fact, by the fact's place */
  streamed = new Map();
  /** All lines, in order. */
  lines = [];
  /** How many facts there are of each type. */
  types = new Map();

  /** Takes an item of the feed; `at` is when a fact was. */
  add(item, at) {
    if (item.type === "delta" || item.type === "text_lost") {
      this.#stream(item);
      return;
    }
    const place = this.facts.push(item) - 1;
    this.times.push(at);
    this.lines.push(place * 2);
    this.types.set(item.type, (this.types.get(item.type) ?? 0) + 1);
  }

  #stream(item) {
    const place = this.facts.length - 1;
    if (place < 0) return;
    let sum = this.streamed.get(place);
    if (!sum) {
      sum = { text: 0, thinking: 0, tool_input: 0, tool_output: 0, lost: false };
      this.streamed.set(place, sum);
      this.lines.push(place * 2 + 1);
    }
    if (item.type === "text_lost") sum.lost = true;
    for (const kind of KINDS) if (item[kind]) sum[kind] += item[kind].length;
  }

  /** The place of the fact with this number; facts have no gaps, but a reader may have begun later. */
  placeOf(seq) {
    const first = this.facts[0]?.seq ?? 1;
    const place = seq - first;
    return this.facts[place]?.seq === seq ? place : this.facts.findIndex((fact) => fact.seq === seq);
  }
}

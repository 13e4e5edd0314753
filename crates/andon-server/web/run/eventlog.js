// The facts of a run in order, and how much was streamed between them.
//
// 1. Facts are kept as they are. Of streamed text only the length is kept: the full text is in the message that follows.
// 2. A line is a number: `line >> 1` is the index of a fact, and `line & 1` is 1 for what was streamed after that fact. So even a
//    list of a million lines is just an array of numbers.

/** @typedef {{text: number, thinking: number, tool_input: number, tool_output: number, lost: boolean}} Streamed */

/** @type {("text" | "thinking" | "tool_input" | "tool_output")[]} */
const KINDS = ["text", "thinking", "tool_input", "tool_output"];

export class EventLog {
  /** @type {Api.Fact[]} */
  facts = [];
  /** @type {number[]} the time of each fact, in milliseconds since the run started */
  times = [];
  /** @type {Map<number, Streamed>} what was streamed after a fact, by the fact's index */
  streamed = new Map();
  /** @type {number[]} all lines, in order */
  lines = [];
  /** @type {Map<string, number>} how many facts there are of each type */
  types = new Map();

  /** Adds a fact and its time. */
  add(/** @type {Api.Fact} */ item, /** @type {number} */ at) {
    const place = this.facts.push(item) - 1;
    this.times.push(at);
    this.lines.push(place * 2);
    this.types.set(item.type, (this.types.get(item.type) ?? 0) + 1);
  }

  /** Adds what was streamed after the last fact. */
  stream(/** @type {Api.Delta | Api.TextLost} */ item) {
    const place = this.facts.length - 1;
    if (place < 0) return;
    let sum = this.streamed.get(place);
    if (!sum) {
      sum = { text: 0, thinking: 0, tool_input: 0, tool_output: 0, lost: false };
      this.streamed.set(place, sum);
      this.lines.push(place * 2 + 1);
    }
    if (item.type === "text_lost") sum.lost = true;
    else for (const kind of KINDS) sum[kind] += item[kind]?.length ?? 0;
  }

  /** The index of the fact with this seq. There are no gaps, but the first fact may have a higher seq than 1. */
  placeOf(/** @type {number} */ seq) {
    const first = this.facts[0]?.seq ?? 1;
    const place = seq - first;
    return this.facts[place]?.seq === seq ? place : this.facts.findIndex((fact) => fact.seq === seq);
  }
}

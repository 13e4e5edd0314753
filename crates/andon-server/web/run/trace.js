// Folds the facts of a run into bars and marks for the timeline.
//
// 1. Whatever has started and not ended is an open bar (`to` is null). Nothing is drawn as ended before there is a fact that says so.
// 2. Overlapping bars of a group are in separate lanes, up to `LANES`; further ones share the last lane and are counted in
//    `crowded`.
// 3. The marks are the four instants of a stop and any further requests. The run's last event is written before it is on disk, so
//    only the receipt says when the run settled.

import { Instants } from "../instants.js";

const LANES = 12;

/** A run's bars and marks. */
export class Trace {
  clock = new Instants();
  /** @type {Record<Group, Lane[]>} bars by group and lane, each lane sorted by time */
  groups = { waits: [], model: [], tools: [] };
  /** @type {Mark[]} */
  marks = [];
  bars = 0;
  crowded = 0;
  isSettled = false;
  /** @type {{record: Api.Fact, at: number} | null} */
  #end = null;
  /** @type {{at: number | null} | null} */
  #settled = null;
  /** @type {Record<Group, (Bar | null)[]>} */
  #busy = { waits: [], model: [], tools: [] };
  /** @type {Map<string, Bar>} by key */
  #open = new Map();
  /** @type {Map<string, string>} the name of each call's tool */
  #tools = new Map();

  /** The latest known instant. */
  get latest() { return Math.max(this.clock.latest, this.#settled?.at ?? 0); }

  /** The name of a tool call. */
  toolOf(/** @type {string} */ call) { return this.#tools.get(call) ?? call; }

  /** Adds a fact; returns its time. */
  add(/** @type {Api.Fact} */ record) {
    const at = this.clock.of(record);
    /** @type {Table} */ (FOLD)[record.type]?.(this, record, at);
    return at;
  }

  /**
   * @param {Group} group
   * @param {string} key
   * @param {string} name
   * @param {Api.Fact} record
   * @param {number} at
   * @param {Partial<Bar>} [more]
   */
  begin(group, key, name, record, at, more) {
    const lane = this.#free(group);
    /** @type {Bar} */
    const bar = { key, group, name, from: at, to: null, how: "open", seq: record.seq, lane, detail: "", ...more };
    const bars = (this.groups[group][lane] ??= []);
    bars.push(bar);
    if (this.#busy[group][lane]) bars.overlap = true;
    this.#busy[group][lane] = bar;
    this.#open.set(key, bar);
    this.bars += 1;
    return bar;
  }

  /**
   * @param {string} key
   * @param {number} at
   * @param {string} how
   * @param {Partial<Bar>} [more]
   */
  end(key, at, how, more) {
    const bar = this.#open.get(key);
    if (!bar) return;
    this.#open.delete(key);
    if (this.#busy[bar.group][bar.lane] === bar) this.#busy[bar.group][bar.lane] = null;
    Object.assign(bar, { to: at, how }, more);
  }

  /** Drops a wait that took no time. */
  forgetIfNothing(/** @type {Group} */ group) {
    const lane = this.groups[group][0];
    if (lane.at(-1)?.to !== lane.at(-1)?.from) return;
    lane.pop();
    this.bars -= 1;
  }

  /**
   * @param {string} name
   * @param {number} at
   * @param {Api.Fact} record
   * @param {boolean} isMain
   */
  mark(name, at, record, isMain, detail = "") {
    this.marks.push({ name, at, seq: record.seq, isMain, detail });
  }

  /** Adds the run's last event. */
  finish(/** @type {Api.Fact} */ record, /** @type {number} */ at) {
    this.isSettled = true;
    this.#end = { record, at };
    this.#markEnd();
  }

  /** Takes from the receipt when the run settled. */
  learn(/** @type {Api.Receipt} */ { settled_at: settled, on_disk: isOnDisk, run_us: us }) {
    this.#settled = isOnDisk ? { at: settled ? us / 1000 : null } : null;
    this.#markEnd();
  }

  #markEnd() {
    if (!this.#end || !this.#settled || this.marks.some(({ name }) => name === "settled" || name === "ended")) return;
    const { record, at } = this.#end;
    if (this.#settled.at === null) this.mark("ended", at, record, true, "settled on disk; the time was not recorded");
    else this.mark("settled", this.#settled.at, record, true, "the outcome is on disk");
  }

  meet(/** @type {Api.Message} */ message) {
    for (const part of message.parts) if (part.type === "tool_call") this.#tools.set(part.id, part.name);
  }

  #free(/** @type {Group} */ group) {
    const busy = this.#busy[group];
    for (let lane = 0; lane < LANES; lane += 1) if (!busy[lane]) return lane;
    this.crowded += 1;
    return LANES - 1;
  }
}

/** @type {Record<string, string>} */
const HOOKS = {
  before_run: "hook before the run", after_run: "hook after the run", before_model: "hook before the model",
  after_model: "hook after the model", before_tool: "hook before a tool", after_tool: "hook after a tool",
};

/** @typedef {Record<string, ((trace: Trace, record: Api.Fact, at: number) => void) | undefined>} Table of facts of any type */

/**
 * What each fact does to the bars and marks.
 * @type {{[Type in Api.Fact["type"]]?: (trace: Trace, record: Api.FactOf<Type>, at: number) => void}}
 */
const FOLD = {
  run_accepted: (trace, record, at) => { trace.begin("waits", "queued", "queued", record, at); },
  run_started: (trace, record, at) => {
    trace.end("queued", at, "over");
    trace.forgetIfNothing("waits");
  },
  hook_started: (trace, record, at) => {
    trace.begin("waits", `hook ${record.point}`, HOOKS[record.point] ?? "hook", record, at);
  },
  hook_finished: (trace, record, at) => trace.end(`hook ${record.point}`, at, record.end),
  model_started: (trace, record, at) => {
    trace.begin("model", `model ${record.call}`, record.model, record, at, { detail: `model call ${record.call}` });
  },
  message: (trace, record) => trace.meet(record.message),
  model_finished: (trace, record, at) => {
    const first = record.first_piece_us === null ? undefined : record.first_piece_us / 1000;
    trace.end(`model ${record.call}`, at, record.end.how, { first });
  },
  backoff_started: (trace, record, at) => { trace.begin("waits", "backoff", "waiting to retry", record, at); },
  backoff_finished: (trace, record, at) => trace.end("backoff", at, "over"),
  approval_requested: (trace, record, at) => {
    trace.begin("waits", `yes ${record.call}`, `waiting for approval of ${trace.toolOf(record.call)}`, record, at, { detail: record.call });
  },
  approval_resolved: (trace, record, at) => trace.end(`yes ${record.call}`, at, record.verdict.verdict),
  tool_started: (trace, record, at) => {
    trace.begin("tools", `tool ${record.call}`, trace.toolOf(record.call), record, at, { detail: record.call });
  },
  tool_finished: (trace, record, at) => trace.end(`tool ${record.call}`, at, record.end),
  tool_refused: (trace, record, at) => {
    const key = `tool ${record.call} ${record.seq}`;
    trace.begin("tools", key, trace.toolOf(record.call), record, at, { detail: record.call });
    trace.end(key, at, "never_started");
  },
  call_cancel_requested: (trace, record, at) => {
    const asked = trace.clock.at(record.epoch, record.request.requested_at);
    trace.mark(`stop of ${trace.toolOf(record.call)}`, asked, record, false, "one call was told to stop");
  },
  cancel_requested: (trace, record) => {
    const asked = trace.clock.at(record.epoch, record.request.requested_at);
    if (trace.marks.some(({ name }) => name === "requested")) {
      trace.mark(`requested again: ${record.request.force}`, asked, record, false, "a harder stop was requested");
      return;
    }
    trace.mark("requested", asked, record, true);
    trace.mark("delivered", trace.clock.at(record.epoch, record.delivered_at), record, true);
  },
  run_quieted: (trace, record, at) => trace.mark("quiet", at, record, true),
  grace_ended: (trace, record, at) => trace.mark("grace over", at, record, false),
  run_settled: (trace, record, at) => trace.finish(record, at),
};

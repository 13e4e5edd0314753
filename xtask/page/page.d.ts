// Types that several modules of the page share. They are here and not in the modules, because browsers load the modules with their
// comments.

/** The element that `h` makes for a tag. */
type Made<Tag extends string> =
  Tag extends `svg:${infer Name extends keyof SVGElementTagNameMap}` ? SVGElementTagNameMap[Name]
  : Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag]
  : HTMLElement;

/** The state of a run for display. */
type ShownState = Api.State | "stalled";

/** What a Stop button does next: `none` if nothing is harder. */
type NextForce = "graceful" | "now" | "none";

/** The parts of the address after the name of the view, and its query. */
type Route = { parts: string[]; query: URLSearchParams };

/** The module of a view. Its default export draws the view; what it starts ends when the signal is aborted. */
type ViewModule = { default: (place: HTMLElement, route: Route, signal: AbortSignal) => void | Promise<void> };

/* The board. */

type Roster = import("../../crates/andon-server/web/board/roster.js").Roster;
type Look = import("../../crates/andon-server/web/board/look.js").Look;

/** A row of the board. `isUnseen`: it has settled, but how is not known. */
type Row = Api.Row & { isUnseen?: boolean };

/** A run on the board: `row` is what the server last sent; `began` and `ended` are times in milliseconds. */
type Entry = { row: Row; id: string; began: number; ended: number | null; samples: number[]; round: number; isOver: boolean };

/** What has changed on the board. */
type Changes = Set<"rows" | "second" | "line" | "ready" | "old" | "press">;

/** The element of a row on the board: `one` finds it for an event. */
type RowElement = HTMLElement & { one?: RowParts };

/** A row element and what is in it; `entry` is the run that it shows, `next` what a press on its Stop does. */
type RowParts = {
  element: RowElement; parts: unknown[]; stop: HTMLButtonElement; label: Text; yes: HTMLAnchorElement; entry: Entry | null; at: number;
  next?: NextForce;
};

/** The board on the screen. `waits` is the timer of the next sort; `ordered` is when the rows were last sorted. */
type Board = {
  place: HTMLElement; roster: Roster; look: Look; chart: ReturnType<typeof import("../../crates/andon-server/web/board/strip.js").strip>; empty: HTMLElement;
  fresh: HTMLButtonElement; these: HTMLButtonElement; signal: AbortSignal; needsOrder: boolean; ordered: number; waits: number;
  draw: () => void; rows: import("../../crates/andon-server/web/board/rows.js").Rows; bar: HTMLElement; upper: HTMLElement;
  controls: ReturnType<typeof import("../../crates/andon-server/web/board/filter.js").controls>;
};

/** A column of the board. Cells that change often write to a text node, so that only the changed text is redrawn. */
type Column<Parts> = {
  key: string; name: string; isNumber?: boolean; isDown?: boolean; make: (cell: HTMLElement) => Parts;
  draw: (parts: Parts, entry: Entry, roster: Roster) => void; rank: (entry: Entry, roster: Roster) => number | string;
};

/* What is shown of a run in the chat. Instants are wall times as the server writes them, durations are milliseconds. */

/** A text as far as it has arrived. It only grows, unless its `edition` changes. */
type Written = { pieces: string[]; edition: number; isOpen: boolean };

type TextPart = Written & { kind: "text"; cut: Api.Cut | null };
type ThinkingPart = Written & { kind: "thinking"; cut: Api.Cut | null; began: number | null; took: number | null };
/** A tool call: what was written are its arguments. Only the end of its live output is kept: `dropped` counts what is gone. */
type CallPart = Written & {
  kind: "call"; id: string; tool: string; stage: "written" | "asked" | "waits" | "runs" | "over"; digest: string | null;
  approval: Api.Approval | null; startedAt: Api.Stamp | null; took: number | null; requests: Api.CancelRequest[];
  output: string[]; outputSize: number; dropped: number; verdict: Api.ToolEnd | "late" | null;
  why: Api.Refusal | null; result: Api.Result | null; remains: Api.Remains | null;
};
/** A model call that failed and is made again. */
type AgainPart = { kind: "again"; delay: number; failure: Api.Failure | null; isOver: boolean };
type ImagePart = { kind: "image"; media: string; reference: string };
type ChatPart = TextPart | ThinkingPart | CallPart | AgainPart | ImagePart;
/** The part of one kind. */
type ChatPartOf<Kind> = Extract<ChatPart, { kind: Kind }>;

/** `answerFrom` is the index of the first part of the answer in progress. */
type ChatRun = {
  id: string; state: Api.State; phase: Api.Phase | null; force: Api.Force | null; before: Api.Message[]; prompt: Api.Part[] | null;
  acceptedAt: Api.Wall | null; startedAt: Api.Wall | null; settledAt: Api.Wall | null; parts: ChatPart[];
  requests: Api.CancelRequest[]; usage: { call: number; used: Api.Used }[]; outcome: Api.Outcome | null;
  failure: Api.Failure | null; isTextLost: boolean; quietTook: number | null; settledTook: number | null;
  answerFrom: number | null; lastAnswerFrom: number | null; openCalls: CallPart[];
};

/* The page of a run. Times are milliseconds since it started. */

type TimeWindow = { from: number; to: number };
type Group = "waits" | "model" | "tools";

/** A bar of the timeline. It is open while `to` is null; `how` says how it ended. */
type Bar = {
  key: string; group: Group; name: string; from: number; to: number | null; how: string; seq: number; first?: number; lane: number; detail: string;
};
/** The bars of a lane, by their start. */
type Lane = Bar[] & { overlap?: boolean };
/** A bar as it is drawn: one bar, or several that are too narrow to show separately. */
type DrawnBar = Omit<Bar, "to"> & {
  to: number; isOpen: boolean; x: number; width: number; count: number; isNarrow: boolean; firstX: number;
};
/** A mark on the timeline. */
type Mark = { name: string; at: number; seq: number; isMain: boolean; detail: string };

/** Where a run stands, and how it ended. */
type RunStanding = { state: Api.State; phase: Api.Phase | null; force: Api.Force | null; outcome?: Api.Outcome; ended_at?: Api.Wall };
/** A run as the server sent it, with what its feed has said since. */
type ShownRun = Omit<Api.Run, "phase" | "force"> & { phase?: Api.Phase | null; force?: Api.Force | null };
/** The name of a call's tool. */
type ToolOf = (call: string) => string;

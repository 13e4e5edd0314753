// What the server sends, for the types of the page's modules. It is not beside them, because everything there is put into the
// program.
//
// 1. A field that the server leaves out when it is empty is optional; a field that it always sends may be `null`.
// 2. A newer server may send more, and other words. The page has to cope with both, so a lookup by a word may find nothing.

declare namespace Api {
  /* Words. */

  type State = "queued" | "running" | "waiting" | "cancelling" | "settled";
  type Phase = "queued" | "hook" | "model" | "backoff" | "tools" | "waiting" | "between";
  type Force = "after_turn" | "graceful" | "now";
  type Reason =
    | "requested" | "client_disconnected" | "superseded" | "parent" | "deadline" | "budget" | "policy" | "approval_denied" | "operator"
    | "shutdown" | "owner_lost";
  type Refusal =
    | "unknown_tool" | "bad_arguments" | "duplicate_id" | "denied_by_hook" | "answered_by_hook" | "denied_by_person" | "call_cancelled" | "run_cancelled" | "lost";
  type ToolEnd = "finished" | "panicked" | "cut" | "unknown" | "never_started" | "leaked" | "detached";
  type Verdict = "finished" | "never_started" | "cut" | "unknown" | "late" | "leaked" | "detached";
  type ModelStop = "end_turn" | "tool_use" | "max_tokens" | "stop_sequence" | "refused";
  type HookPoint = "before_run" | "after_run" | "before_model" | "after_model" | "before_tool" | "after_tool";
  type HookEnd =
    | "continued" | "changed" | "denied" | "answered" | "asked" | "failed" | "cancelled" | "panicked" | "cut" | "leaked";

  /** An instant as RFC 3339, with microseconds. */
  type Wall = string;
  /** An instant by both clocks of the process that took it. */
  type Stamp = { wall: Wall; mono_us: number };

  /* How a run ended. */

  type Failure = { error: string; message: string };
  type Outcome =
    | { kind: "completed"; stop: ModelStop }
    | { kind: "cancelled"; reason: Reason }
    | ({ kind: "failed" } & Failure)
    | { kind: "lost" };

  /* Messages. */

  type Text = { type: "text"; text: string };
  type Image = { type: "image"; media_type: string; reference: string };
  type Content = Text | Image;
  type Thinking = { type: "thinking"; text: string; signature?: { by: string; value: string } };
  type ToolCall = { type: "tool_call"; id: string; name: string; arguments: string };
  type Result = { call: string; status: "ok" | "error" | "refused" | "cut" | "unknown"; content: Content[] };
  type Part = Text | Image | Thinking | ToolCall | ({ type: "tool_result" } & Result);
  type HookChange =
    | { what: "input"; input: Message }
    | { what: "request"; request: object }
    | { what: "answer"; answer: Message; is_withdrawn?: boolean }
    | { what: "call"; call: { id: string; name: string; arguments: string } }
    | { what: "result"; result: Result };
  type Cut = { by: "cancelled"; reason: Reason } | { by: "broken" } | { by: "lost" };
  type Message = { role: "user" | "assistant" | "tool"; parts: Part[]; cut?: Cut };

  /* Figures. */

  type Provenance = "reported" | "reported_running" | "looked_up" | "counted" | "estimated" | "bounded" | "unknown";
  type Figure = { value: number | null; provenance: Provenance; low: number | null; high: number | null };
  type Usage = { input: Figure; unsplit: Figure; cache_read: Figure; cache_write: Figure; output: Figure; reasoning: Figure };
  type Used = { delivered: Usage; billed: Usage };
  type Cost = { currency: string; value: number | null; provenance: Provenance; low: number | null; high: number | null; unpriced?: string[] };
  /** A better figure that is expected. */
  type Awaited = { what: "draining" | "looking_up" | "counting" | "estimating"; until: Wall };

  /* A run's feed. */

  type CancelRequest = { reason: Reason; force: Force; by?: string; note?: string; grace_ms?: number; requested_at: Stamp };
  type Approval =
    | { verdict: "approved"; by: string | null; arguments?: string; why?: string }
    | { verdict: "denied"; by: string | null; why: string | null }
    | { verdict: "closed" };
  type Remains = { leaked?: string[]; unended?: string; notes?: string[] };
  type SessionKey = { tenant?: string; app: string; user: string; session: string };
  type ModelEnd = { how: "answered"; stop: ModelStop } | { how: "cut" } | { how: "failed"; failure: Failure } | { how: "lost" };
  type Standing = { state: State; phase?: Phase; force?: Force };

  type Event =
    | { type: "run_accepted"; accepted: { run: string; session: SessionKey; history?: Message[]; input: Message } }
    | { type: "run_started" }
    | { type: "hook_started"; point: HookPoint }
    | { type: "hook_finished"; point: HookPoint; end: HookEnd; change?: HookChange; why?: string }
    | { type: "model_started"; call: number; model: string; is_changed?: boolean }
    | { type: "message"; message: Message }
    | { type: "usage"; call: number; used: Used; pending?: Awaited; answered_by?: string; request_id?: string }
    | { type: "model_finished"; call: number; end: ModelEnd; first_piece_us: number | null }
    | { type: "backoff_started"; delay_ms: number }
    | { type: "backoff_finished" }
    | { type: "approval_requested"; call: string; arguments?: string }
    | { type: "approval_resolved"; call: string; verdict: Approval }
    | { type: "tool_started"; call: string; effect: "read_only" | "idempotent" | "effect"; effect_id?: string }
    | { type: "tool_finished"; call: string; end: ToolEnd; result: Result; remains?: Remains }
    | { type: "tool_refused"; call: string; why: Refusal; result: Result }
    | { type: "call_cancel_requested"; call: string; request: CancelRequest }
    | { type: "cancel_requested"; request: CancelRequest; delivered_at: Stamp }
    | { type: "run_quieted" }
    | { type: "grace_ended"; calls: string[] }
    | { type: "run_settled"; outcome: Outcome };
  /** An event on record. A server of an older version sends no standing. */
  type Fact = { v: number; seq: number; epoch: number; at: Stamp; standing?: Standing } & Event;
  /** The fact of one type. */
  type FactOf<Type> = Extract<Fact, { type: Type }>;
  /** Streamed text of one kind. */
  type Delta = {
    type: "delta"; at: string; text?: string; thinking?: string; tool_input?: string; tool_output?: string; call?: string; tool?: string;
  };
  type TextLost = { type: "text_lost"; at: string };
  type RunItem = Fact | Delta | TextLost | { type: "cancel_reply" };
  /** The item of one type. */
  type RunItemOf<Type> = Extract<RunItem, { type: Type }>;

  /* Runs. */

  type Run = {
    run_id: string; app: string; user: string; session: string; tenant?: string; state: State; phase?: Phase; force?: Force;
    outcome?: Outcome; accepted_at: Wall; ended_at?: Wall; settled_at?: Wall; stalled?: string; title: string;
    approvals?: { call: string; tool: string; arguments: string; digest: string; since: string }[];
  };
  type RunPage = { runs: Run[]; next?: string };
  type App = { app: string; model?: string; description?: string; refused?: string };
  type Session = { app: string; user: string; session: string; created_at: Wall; updated_at: Wall; runs: number; title?: string };
  type Me = { name: string; tenant: string; user: string; scopes: string[] };
  type Conversation = {
    model?: string; form: string; request: unknown; messages: Message[]; messages_left_out?: number; truncated: boolean;
    open?: ({ what: "prompt"; text: string } | { what: "result"; call: string; text: string } | { what: "run"; run: string; text: string })[];
  };

  /* Receipts. */

  type CallAccount = {
    call: string; tool: string; verdict: Verdict; refused?: Refusal; changed_by_hook?: boolean; took_us?: number; effect_id?: string; notes?: string[];
    compensation?: "started" | "done" | "failed" | "unknown";
  };
  type ModelAccount = {
    call: number; model: string; answered_by?: string; request_id?: string; usage: Used; first_piece_us: number | null;
    took_us: number | null; pending?: Awaited; cost?: Cost;
  };
  type Learnt =
    | { type: "late_result"; call: string; result: Result; remains?: Remains }
    | { type: "compensation_started"; call: string; by: string | null }
    | { type: "compensation_finished"; call: string; end: ToolEnd; result: Result }
    | { type: "undelivered"; call: number; parts: Part[] }
    | { type: "usage_corrected"; call: number; used: Used };
  type Addendum = { v: number; number: number; at: Stamp } & Learnt;
  type Receipt = {
    v: number; run: string; session: SessionKey; outcome: Outcome | null; accepted_at: Wall; requested_at: Wall | null; delivered_at: Wall | null;
    quiet_at: Wall | null; settled_at: Wall | null; on_disk: boolean; run_us: number; reason: Reason | null; by: string | null;
    took: { delivered_us: number | null; quiet_us: number | null; settled_us: number | null };
    note: string | null; force: Force | null; requests: CancelRequest[]; cut_in: Phase | null; calls: CallAccount[];
    model_calls: ModelAccount[]; usage: Used; first_piece_us: number | null; leaked: string[]; revision: number; addenda: Addendum[]; cost?: Cost;
  };

  /* Stops and the line. */

  type Cancelled = {
    run_id: string; reply: "accepted" | "hardened" | "already_cancelling" | "too_late" | "not_running"; state: State; force?: Force;
    outcome?: Outcome; call?: string; leaked?: string[]; receipt?: Receipt;
  };
  type CancelledMany = { cancelled: number; settled: boolean; runs: Cancelled[] };
  type Hold = { tenant?: string; app?: string; user?: string; reason?: string; by: string; since: Wall };
  /** `stopped` is only in the response to a request that cancels. */
  type Line = { state: "open" | "held"; holds: Hold[]; stopped?: CancelledMany };

  /* The board's feed. */

  type Row = {
    n: number; run_id: string; app: string; user: string; session: string; tenant?: string; state: State; phase?: Phase; outcome?: Outcome;
    accepted_at: Wall; settled_at?: Wall; title: string; model?: string; pieces?: number; tokens: { input: Figure; output: Figure };
    open?: boolean; cost?: Cost; cancel?: { requested_at: Wall; by?: string; reason: Reason; force: Force }; took_us?: number; tools?: string[];
    waiting?: { call: string; tool: string; digest?: string }[]; leaked?: number; stalled?: string;
  };
  type Second = {
    at: Wall; live: number; begun: number; settled: number; cancelled: number; median_us: number | null; slowest_us: number | null;
  };
  type BoardItem =
    | { type: "board"; now: Wall; live: number; settled: number; line: Line; past: Second[] }
    | { type: "runs"; runs: Row[] }
    | { type: "gone"; rows: number[] }
    | { type: "ready" }
    | ({ type: "second"; pieces: [number, number][] } & Second)
    | { type: "line"; line: Line };
  /** The item of one type. */
  type BoardItemOf<Type> = Extract<BoardItem, { type: Type }>;

  /** The items of a feed, by its path. */
  type Item<Path extends string> =
    Path extends "/v1/board" ? BoardItem
    : Path extends `/v1/runs/${string}/events` ? RunItem
    : never;

  /* Responses. */

  /** A refusal. `pulled`, `held` and `cancelled` say what took effect all the same. */
  type Problem = {
    type?: string; title?: string; status?: number; detail?: string; pulled?: boolean; held?: boolean; cancelled?: number;
    remembered_for_ms?: number; sign_in?: string;
  };

  /** The response to a request, such as `GET /v1/me`. */
  type Answer<Request extends string> =
    Request extends "GET /v1/me" ? Me
    : Request extends "GET /v1/apps" ? { apps: App[] }
    : Request extends "GET /v1/sessions" ? { sessions: Session[] }
    : Request extends "POST /v1/tickets" ? { ticket: string }
    : Request extends "GET /v1/line" | "PUT /v1/line" ? Line
    : Request extends "POST /v1/cancel" ? CancelledMany
    : Request extends "GET /v1/runs" ? RunPage
    : Request extends "POST /v1/runs" ? Run
    : Request extends `GET /v1/runs/${string}/receipt` ? Receipt
    : Request extends `GET /v1/runs/${string}/conversation` ? Conversation
    : Request extends `POST /v1/runs/${string}/cancel` ? Cancelled
    : Request extends `GET /v1/runs/${string}` ? Run
    : unknown;
}

// What the page asks of its server.
//
// 1. A key is sent in a header and in nothing else: no address, no cookie. It is kept for this tab alone, in storage that only
//    pages of this server read.
// 2. Whatever is refused is a `Problem` that says what is wrong and what to do. That the server does not answer is a
//    `Problem` of status 0.
// 3. No question waits for ever: a server that says nothing for `PATIENCE` is gone, whatever its connections say.
// 4. Who asks knows whether the server is there: `link` says when it goes and when it is back.

import { dayAndTime } from "./words.js";

const KEY = "andon.key";
/** Where the server's paths begin: beside the page. */
const BASE = new URL("../", document.baseURI);

/** How long an answer may take to begin, in milliseconds, unless the question waits for something itself. */
export const PATIENCE = 10_000;
/** As that, of one that asks to be answered when all is settled. */
const WAITING = 45_000;

/** What the server refused, or that it did not answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(sentence(readably(body?.detail ?? body?.title ?? `The server responded with status ${status}.`)));
    this.name = "Problem";
    this.status = status;
    /** The last word of its type, such as `no-such-run`. */
    this.kind = String(body?.type ?? "").split(/[/:]/).pop();
    this.body = body ?? {};
  }
  get isGone() { return this.status === 0; }
}

/** What the server says begins in lower case: it may follow other words. */
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Instants in what the server says, as people write them. */
const readably = (text) => String(text).replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (at) => dayAndTime(at));

/** Tells of "gone", "back", "key" (somebody has to show one) and "known" (somebody has). */
export const link = new EventTarget();
let isGone = false;

/** The server answered, or did not. */
export function heard(answered) {
  if (answered === !isGone) return;
  isGone = !answered;
  link.dispatchEvent(new Event(isGone ? "gone" : "back"));
}

/** Whether the server does not answer, as far as is known. */
export const serverIsGone = () => isGone;

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** The address of a path of the server. */
export function address(path, query) {
  const url = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** A part of a path. */
export const part = encodeURIComponent;

let ahead = Infinity;
/** Notes how far this clock is ahead of the server's, which says whole seconds: the least that was seen is the nearest. */
function compareClocks(date) {
  const gap = Date.now() - Date.parse(date);
  if (Number.isFinite(gap)) ahead = Math.min(ahead, gap);
}
/** What the server's clock says now, in milliseconds since 1970, within about a second. */
export const serverNow = () => Date.now() - (Number.isFinite(ahead) ? ahead : 0);

/**
 * Asks, and gives the answer.
 * @param {string} method
 * @param {string} path such as "/v1/runs"
 * @param {{query?: object, body?: {[name: string]: unknown, wait?: boolean}, signal?: AbortSignal, unread?: boolean}} [more]
 *   `unread` is for an answer that has no end: only whether it is refused is of interest.
 */
export async function call(method, path, { query, body, signal, unread } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const patience = body?.wait ? WAITING : PATIENCE;
  const answer = await answered(address(path, query), { method, headers, body: text, cache: "no-store" }, signal, patience);
  heard(true);
  compareClocks(answer.headers.get("date"));
  if (unread && answer.ok) {
    await answer.body?.cancel();
    return null;
  }
  const said = await answer.text();
  const json = readable(said);
  if (answer.ok) return json;
  if (answer.status === 401) link.dispatchEvent(new Event("key"));
  throw new Problem(answer.status, json);
}

/** The answer to a question, once it begins. What comes from a proxy that does not reach the server is none. */
async function answered(url, question, signal, patience) {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), patience);
  const either = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
  try {
    const answer = await fetch(url, { ...question, signal: either });
    if (answer.status < 500 || isOurs(answer)) return answer;
  } catch (error) {
    if (signal?.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  heard(false);
  throw new Problem(0, { detail: "The server is not responding. Your last action may not have reached it." });
}

/** The server says in JSON what is wrong; who stands between says it in another way. */
const isOurs = (answer) => (answer.headers.get("content-type") ?? "").includes("json");

function readable(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

export const get = (path, more) => call("GET", path, more);
export const post = (path, body, more) => call("POST", path, { ...more, body });

/** The address of a WebSocket, with a ticket where a key is needed: a browser can send no header with it. */
export async function socketAddress(path, query, signal) {
  const ticket = key.get() ? (await post("/v1/tickets", undefined, { signal })).ticket : undefined;
  const url = address(path, { ...query, ticket });
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}

/**
 * Stops a run: gracefully, or `now`.
 * @param {string} run
 * @param {{force?: string, note?: string}} [how]
 */
export const stopRun = (run, { force = "graceful", note } = {}) =>
  post(`/v1/runs/${part(run)}/cancel`, { force, note: note ?? "the page's Stop button" });

/** Stops one call of a run. */
export const stopCall = (run, tool, { force = "graceful" } = {}) =>
  post(`/v1/runs/${part(run)}/calls/${part(tool)}/cancel`, { force, note: "the page's Stop button" });

/** Says yes or no to a call that waits, and to exactly the arguments that were shown. */
export const decide = (run, tool, decision, digest, why) =>
  post(`/v1/runs/${part(run)}/approvals/${part(tool)}`, { decision, digest: decision === "approve" ? digest : undefined, why });

let known = null;
/** Whom the server takes us for: `{name, tenant, user, scopes}`. */
export async function me() {
  known ??= await get("/v1/me");
  return known;
}
/** A user as people say it: one's own is "you". */
export const userWord = (user, tenant) => (user === known?.user && (tenant === undefined || tenant === known.tenant) ? "you" : user);
/** The name of who did something, as people say it: one's own is "you". */
export const nameWord = (name) => (known !== null && name === known.name ? "you" : name);
/** Another key is another person. */
export const forgetMe = () => { known = null; };
/** Whether we may do something. Nobody may before it is known who they are; without keys everybody may do everything. */
export const may = (scope) => known !== null && (known.scopes.includes(scope) || known.scopes.includes("admin"));

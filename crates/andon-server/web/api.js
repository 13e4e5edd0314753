// Calls to the server.
//
// 1. A key is only ever sent in a header, never in an address or a cookie. It is kept for this tab alone, in storage that only
//    pages of this server can read.
// 2. Whatever is refused is a `Problem` that says what is wrong and what to do. If the server does not respond, the status of
//    the `Problem` is 0.
// 3. No call waits forever: a server that sends nothing for `PATIENCE` counts as gone, even if its connections are open.
// 4. `link` tells when the server goes away and when it is back.

import { dayAndTime, sentence } from "./words.js";

/** The address of the server: the page is in a folder below it. */
const BASE = new URL("../", document.baseURI);
/**
 * How everything that the page stores for its tab begins. Another server under the same name, at another path, has the same storage: it
 * must not be sent this one's key, or what is still to be sent here.
 */
export const STORED = BASE.pathname === "/" ? "andon." : `andon:${BASE.pathname}.`;
const KEY = `${STORED}key`;

/** How long a response may take to start, in milliseconds, unless the request itself waits for something. */
export const PATIENCE = 10_000;
/** The same for a request that waits until everything has settled. */
const WAITING = 45_000;

/** A refusal by the server, or no response at all. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {Api.Problem | null} [body] as the server sent it
   */
  constructor(status, body) {
    super(sentence(readably(body?.detail ?? body?.title ?? `The server responded with status ${status}.`)));
    this.name = "Problem";
    this.status = status;
    /** The last part of its type, such as `no-such-run`. */
    this.kind = String(body?.type ?? "").split(/[/:]/).pop();
    /** @type {Api.Problem} */
    this.body = body ?? {};
  }
  get isGone() { return this.status === 0; }
}

/**
 * What was thrown. Only a `Problem` has more than words.
 * @type {(thrown: unknown) => {message: string} & Partial<Problem>}
 */
export const troubleOf = (thrown) => (thrown instanceof Error ? thrown : { message: "Something went wrong." });

/** Rewrites the instants in a text from the server as people write them. */
const readably = (/** @type {string} */ text) => String(text).replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (at) => dayAndTime(at));

/** Events: "gone", "back", "key" (a key is needed) and "known" (a valid key was given). */
export const link = new EventTarget();
/**
 * What the server said when it last did not know us: whether it takes a key, and where one signs in to the program that it is a part of.
 * @type {{takesKey: boolean, place: string | undefined}}
 */
export const unknown = { takesKey: true, place: undefined };
let isGone = false;

/**
 * Records whether the server responded.
 * @param {boolean} answered
 */
export function heard(answered) {
  if (answered === !isGone) return;
  isGone = !answered;
  link.dispatchEvent(new Event(isGone ? "gone" : "back"));
}

/** Whether the server did not respond when it was last asked. */
export const serverIsGone = () => isGone;

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (/** @type {string} */ text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/**
 * The address of a path of the server.
 * @param {string} path
 * @param {object} [query]
 */
export function address(path, query) {
  const url = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** Escapes a part of a path. */
export const part = encodeURIComponent;

let ahead = Infinity;
/** Learns how far this clock is ahead of the server's. The server gives whole seconds, so the smallest gap is the closest. */
function compareClocks(/** @type {string | null} */ date) {
  const gap = Date.now() - Date.parse(date ?? "");
  if (Number.isFinite(gap)) ahead = Math.min(ahead, gap);
}
/** The server's time in milliseconds since 1970, accurate to about a second. */
export const serverNow = () => Date.now() - (Number.isFinite(ahead) ? ahead : 0);

/** @typedef {{query?: object, body?: {[name: string]: unknown, wait?: boolean}, signal?: AbortSignal, unread?: boolean}} More */

/**
 * Makes a call and returns the response.
 * @template {string} Method
 * @template {string} Path
 * @param {Method} method
 * @param {Path} path such as "/v1/runs"
 * @param {More} [more]
 * @returns {Promise<Api.Answer<`${Method} ${Path}`>>}
 *   `unread` is for a response that never ends: all that matters is whether the call is refused.
 */
export async function call(method, path, { query, body, signal, unread } = {}) {
  /** @type {Record<string, string>} */
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
    return /** @type {any} */ (null);
  }
  const said = await answer.text();
  const json = readable(said);
  if (answer.ok) return json;
  const problem = new Problem(answer.status, json);
  if (answer.status === 401) {
    Object.assign(unknown, { takesKey: problem.kind !== "not-signed-in", place: problem.body.sign_in });
    link.dispatchEvent(new Event("key"));
  }
  throw problem;
}

/**
 * The response, once it starts. An error from a proxy that cannot reach the server does not count as one.
 * @param {URL} url
 * @param {RequestInit} question
 * @param {AbortSignal | undefined} signal
 * @param {number} patience in milliseconds
 */
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

/** The server reports errors as JSON; proxies in between do not. */
const isOurs = (/** @type {Response} */ answer) => (answer.headers.get("content-type") ?? "").includes("json");

function readable(/** @type {string} */ text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

/** @type {<Path extends string>(path: Path, more?: More) => Promise<Api.Answer<`GET ${Path}`>>} */
export const get = (path, more) => call("GET", path, more);
/** @type {<Path extends string>(path: Path, body?: More["body"], more?: More) => Promise<Api.Answer<`POST ${Path}`>>} */
export const post = (path, body, more) => call("POST", path, { ...more, body });

/**
 * The address of a WebSocket, with a ticket if there is a key: browsers cannot send headers with a WebSocket.
 * @param {string} path
 * @param {object} query
 * @param {AbortSignal} signal
 */
export async function socketAddress(path, query, signal) {
  const ticket = key.get() ? (await post("/v1/tickets", undefined, { signal })).ticket : undefined;
  const url = address(path, { ...query, ticket });
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}

/**
 * Stops a run: gracefully, or `now`.
 * @param {string} run
 * @param {{force?: Api.Force, note?: string}} [how]
 */
export const stopRun = (run, { force = "graceful", note } = {}) =>
  post(`/v1/runs/${part(run)}/cancel`, { force, note: note ?? "the page's Stop button" });

/**
 * Stops one call of a run.
 * @param {string} run
 * @param {string} tool the id of the call
 * @param {{force?: Api.Force}} [how]
 */
export const stopCall = (run, tool, { force = "graceful" } = {}) =>
  post(`/v1/runs/${part(run)}/calls/${part(tool)}/cancel`, { force, note: "the page's Stop button" });

/**
 * Approves or denies a waiting call, with exactly the arguments that were shown.
 * @param {string} run
 * @param {string} tool the id of the call
 * @param {"approve" | "deny"} decision
 * @param {string} [digest] of the arguments
 * @param {string} [why]
 */
export const decide = (run, tool, decision, digest, why) =>
  post(`/v1/runs/${part(run)}/approvals/${part(tool)}`, { decision, digest: decision === "approve" ? digest : undefined, why });

/** @type {Api.Me | null} */
let known = null;
/** Who we are to the server. */
export async function me() {
  return (known ??= await get("/v1/me"));
}
/** The name under which the server knows us, if it does. */
export const ownName = () => known?.name ?? "";
/** The name of the owner of the machine: everybody, where nobody signs in. */
const OWNER = "local";
/** Whether we are known to the program that the server is a part of, and not by a key. */
export const isKnownToProgram = () => known !== null && !key.get() && known.name !== OWNER;
/** A user's name for display: "you" for our own. */
export const userWord = (/** @type {string} */ user, /** @type {string | undefined} */ tenant = undefined) =>
  (user === known?.user && (tenant === undefined || tenant === known.tenant) ? "you" : user);
/** The name of whoever did something, for display: "you" if it was us. */
export const nameWord = (/** @type {string} */ name) => (known !== null && name === known.name ? "you" : name);
/** Call this when the key changes. */
export const forgetMe = () => { known = null; };
/** Whether we have a scope. Until it is known who we are we have none; without keys everyone has all of them. */
export const may = (/** @type {string} */ scope) => known !== null && (known.scopes.includes(scope) || known.scopes.includes("admin"));

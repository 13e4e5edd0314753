// Live feeds over WebSockets: the past, then the present, with no gap and no repeat.
//
// 1. A feed resumes where it was: after a break it asks for what follows the last item that was passed on.
// 2. Items are passed on in order, once per frame: however fast they arrive, the page draws at its own pace.
// 3. A refused feed says why, and is not retried forever.
// 4. Browsers limit ordinary connections per server, but not WebSockets: with many tabs open a Stop still gets through.

import { call, heard, key, link, PATIENCE, Problem, socketAddress, troubleOf } from "./api.js";
import { everyFrame } from "./dom.js";

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;

/**
 * @template Item
 * @typedef {{query?: object, after?: string | number, onItems: (items: Item[]) => void, onBegin?: () => void, onBreak?: () => void,
 *   onEnd?: (problem?: {message: string, status?: number}) => void, isLast?: (item: Item) => boolean, signal: AbortSignal}} How
 */
/**
 * @typedef {{path: string, how: How<any>, last: string | number | undefined, wait: number, socket: WebSocket | null, items: any[],
 *   isOver: boolean}} Feed
 */

/**
 * Follows a feed until it ends or `signal` is aborted.
 * @template {string} Path
 * @param {Path} path such as "/v1/board"
 * @param {How<Api.Item<Path>>} how `onBegin` is called before the first item of each connection, `onBreak` when a connection is lost; `isLast`
 *   recognises the last item; `onEnd` is called at the end, with the problem if that is the cause.
 * @returns {{send: (message: object) => boolean}} `send` returns false if there is no connection right now
 */
export function follow(path, how) {
  /** @type {Feed} */
  const feed = { path, how, last: how.after, wait: FIRST_WAIT, socket: null, items: [], isOver: false };
  const hand = everyFrame(() => handOut(feed), how.signal);
  how.signal.addEventListener("abort", () => { feed.isOver = true; feed.socket?.close(); }, { once: true });
  // A server that has stopped responding may leave its connections open forever, so we open a new one.
  link.addEventListener("gone", () => leave(feed, hand), { signal: how.signal });
  connect(feed, hand);
  return { send: (message) => say(feed, message) };
}

function say(/** @type {Feed} */ feed, /** @type {object} */ message) {
  if (feed.socket?.readyState !== WebSocket.OPEN) return false;
  feed.socket.send(JSON.stringify(message));
  return true;
}

async function connect(/** @type {Feed} */ feed, /** @type {() => void} */ hand) {
  const { how, path } = feed;
  if (feed.isOver) return;
  let url;
  try {
    url = await socketAddress(path, { ...how.query, after: feed.last }, how.signal);
  } catch (error) {
    refused(feed, hand, error);
    return;
  }
  if (feed.isOver) return;
  const socket = new WebSocket(url);
  feed.socket = socket;
  let isNew = true;
  let isOpen = false;
  const silence = setTimeout(() => {
    if (feed.socket !== socket) return;
    heard(false);
    leave(feed, hand);
  }, PATIENCE);
  socket.onopen = () => {
    isOpen = true;
    clearTimeout(silence);
    heard(true);
    feed.wait = FIRST_WAIT;
  };
  socket.onmessage = ({ data }) => {
    const item = JSON.parse(data);
    if (isNew) feed.items.push({ type: BEGIN });
    isNew = false;
    feed.items.push(item);
    hand();
  };
  socket.onclose = ({ code }) => (isOpen ? closed(feed, hand, code) : notTaken(feed, hand));
}

/** A refused WebSocket does not say why. The same request over HTTP does (invariant 3). */
async function notTaken(/** @type {Feed} */ feed, /** @type {() => void} */ hand) {
  const { how, path } = feed;
  feed.socket = null;
  if (feed.isOver) return;
  try {
    await call("GET", path, { query: { ...how.query, after: feed.last }, signal: how.signal, unread: true });
    again(feed, hand);
  } catch (error) {
    refused(feed, hand, error);
  }
}

/** Gives up a connection that may be dead, and reconnects. */
function leave(/** @type {Feed} */ feed, /** @type {() => void} */ hand) {
  const { socket } = feed;
  if (!socket || feed.isOver) return;
  socket.onopen = socket.onmessage = socket.onclose = null;
  socket.close();
  closed(feed, hand, 1006);
}

/** Marks the start of each connection in the queue. */
const BEGIN = Symbol("begin");

function handOut(/** @type {Feed} */ feed) {
  const { how } = feed;
  /** @type {any[]} */
  let items = [];
  const pass = () => {
    if (items.length) how.onItems(items);
    items = [];
  };
  const all = feed.items;
  feed.items = [];
  for (const item of all) {
    if (item.type === BEGIN) {
      pass();
      how.onBegin?.();
      continue;
    }
    items.push(item);
    // For an event `at` is a time, and `seq` is its position; other items have their position in `at`.
    const place = item.seq ?? item.at;
    if (place !== undefined && item.type !== "second") feed.last = place;
    if (how.isLast?.(item)) feed.isOver = true;
  }
  pass();
  if (feed.isOver && !how.signal.aborted) {
    feed.socket?.close();
    how.onEnd?.();
  }
}

function closed(/** @type {Feed} */ feed, /** @type {() => void} */ hand, /** @type {number} */ code) {
  const { how } = feed;
  feed.socket = null;
  if (feed.isOver) return;
  // Pass on what has arrived first: the next connection resumes after it (invariant 1).
  handOut(feed);
  if (feed.isOver) return;
  how.onBreak?.();
  if (code === 1008) {
    waitForKey(feed, hand);
    // The key has expired or was revoked, or the program that the server is a part of no longer knows us: that one says where to sign in.
    if (key.get()) link.dispatchEvent(new Event("key"));
    else call("GET", "/v1/me").catch(() => {});
    return;
  }
  if (code !== 1000 && code !== 1001) heard(false);
  again(feed, hand);
}

function refused(/** @type {Feed} */ feed, /** @type {() => void} */ hand, /** @type {unknown} */ error) {
  if (feed.isOver) return;
  if (error instanceof Problem && error.status === 401) waitForKey(feed, hand);
  else if (error instanceof Problem && (error.isGone || error.status === 429 || error.status >= 500)) again(feed, hand);
  else {
    feed.isOver = true;
    feed.how.onEnd?.(troubleOf(error));
  }
}

function waitForKey(/** @type {Feed} */ feed, /** @type {() => void} */ hand) {
  const { signal } = feed.how;
  link.addEventListener("known", () => connect(feed, hand), { once: true, signal });
}

function again(/** @type {Feed} */ feed, /** @type {() => void} */ hand) {
  const { signal } = feed.how;
  const wait = feed.wait * (0.75 + Math.random() / 2);
  feed.wait = Math.min(feed.wait * 2, LONGEST_WAIT);
  const control = new AbortController();
  const now = () => {
    if (control.signal.aborted) return;
    control.abort();
    clearTimeout(timer);
    connect(feed, hand);
  };
  const timer = setTimeout(now, wait);
  // If someone looks at the page or the network is back, reconnect right away.
  const both = { signal: AbortSignal.any([control.signal, signal]) };
  window.addEventListener("online", now, both);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) now(); }, both);
  link.addEventListener("back", now, both);
}

// The inside of a line of markdown: emphasis, code, links.
//
// 1. It takes linear time: each character is looked at a bounded number of times, whatever the text.
// 2. Text stays text: elements come from `h()` alone, and only http, https and mailto addresses become links. The tooltip of a link
//    is its address. Nothing is loaded: an image is a link.
// 3. Marks that are not closed are shown as they were written.
// 4. In code, characters that change the text direction are made visible and have no effect.

import { h } from "../dom.js";

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
/** Longer addresses do not become links. */
const LONGEST_ADDRESS = 2000;
/** The deepest nesting of open marks, or of brackets in an address. Deeper ones are text. */
const DEEPEST = 16;
/** The most nodes of a text; the rest is plain. Nobody writes that many by hand, and laying them out takes long. */
const MOST = 1500;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const SPACE = /\s/;
/** Characters that may start something; all others are text. */
const SPECIAL = /[\\`*_~[\]!<h]/g;

/** Characters that change the text direction, and invisible ones except where letters or emoji need them. */
const HIDDEN =
  /[\u202A-\u202E\u2066-\u2069\u200E\u200F\u061C\u200B\uFEFF\u00AD\u2060-\u2064\u115F\u1160\u3164]|[\u{E0000}-\u{E007F}]|(?<![\u0080-\u{10FFFF}])[\u200C\u200D]/gu;

/**
 * @typedef {{tag: string, properties?: Record<string, string>, children: Inline[]}} Tagged an element to be
 * @typedef {string | Tagged} Inline
 * @typedef {{mark: string, count: number, all: number, canOpen: boolean, canClose: boolean}} Marks
 *   a run of marks: how many are left, and how many there were
 * @typedef {{text: string, at: number, nodes: (Inline | Marks)[], opens: {place: number, isImage: boolean}[], noCode: Set<number>}} Reader
 * @typedef {{opener?: Marks, children: Inline[]}} Frame
 */

/** Makes characters visible that would hide something. */
export const revealed = (/** @type {string} */ text) =>
  text.replace(HIDDEN, (mark) => `⟪U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟫`);

/**
 * The same for the end of a text. Whether its first character hides something depends on the one before it.
 * @param {string} text
 * @param {number} from where the end starts
 */
export function revealedFrom(text, from) {
  const before = text.slice(Math.max(0, from - 2), from);
  return revealed(before + text.slice(from)).slice(revealed(before).length);
}

/**
 * The elements and texts of a line, or of several.
 * @param {string} text
 * @returns {Node[]}
 */
export function inline(text) {
  /** @type {Reader} */
  const reader = { text, at: 0, nodes: [], opens: [], noCode: new Set() };
  while (reader.at < text.length && reader.nodes.length < MOST) step(reader);
  reader.nodes.push(text.slice(reader.at));
  return emphasis(reader.nodes).map(node);
}

/** @type {(it: Inline) => Node} */
const node = (it) =>
  (typeof it === "string" ? document.createTextNode(it) : h(it.tag, it.properties, joined(it.children).map(node)));

/** Joins adjacent texts. */
function joined(/** @type {Inline[]} */ list) {
  /** @type {Inline[]} */
  const all = [];
  for (const it of list) {
    const last = all.at(-1);
    if (typeof it === "string" && typeof last === "string") all[all.length - 1] = last + it;
    else all.push(it);
  }
  return all;
}

function step(/** @type {Reader} */ reader) {
  const { text, at } = reader;
  SPECIAL.lastIndex = at;
  const next = SPECIAL.exec(text)?.index ?? text.length;
  if (next > at) reader.nodes.push(text.slice(at, next));
  reader.at = next;
  if (next < text.length) BEGINS[text[next]](reader);
}

function literal(/** @type {Reader} */ reader, length = 1) {
  reader.nodes.push(reader.text.slice(reader.at, reader.at + length));
  reader.at += length;
}

/** @type {Record<string, (reader: Reader) => void>} */
const BEGINS = {
  "\\"(reader) {
    const next = reader.text[reader.at + 1];
    if (next === "\n") {
      reader.nodes.push({ tag: "br", children: [] });
      reader.at += 2;
    } else if (next !== undefined && next < "\x7f" && PUNCTUATION.test(next)) {
      reader.nodes.push(next);
      reader.at += 2;
    } else literal(reader);
  },
  "`": code,
  "*": marks,
  "_": marks,
  "~": marks,
  "!"(reader) {
    if (reader.text[reader.at + 1] === "[") open(reader, 2);
    else literal(reader);
  },
  "["(reader) { open(reader, 1); },
  "]": close,
  "<": angled,
  h: bare,
};

/* Code. */

function code(/** @type {Reader} */ reader) {
  const { text, at, noCode } = reader;
  const ticks = runLength(text, at);
  let end = noCode.has(ticks) ? -1 : at + ticks;
  while (end >= 0) {
    end = text.indexOf("`", end);
    if (end < 0) break;
    const length = runLength(text, end);
    if (length === ticks) break;
    end += length;
  }
  if (end < 0) {
    // There is no closing run of this length, so there is no need to search again (invariant 1).
    noCode.add(ticks);
    literal(reader, ticks);
    return;
  }
  let inside = text.slice(at + ticks, end).replaceAll("\n", " ");
  if (inside.startsWith(" ") && inside.endsWith(" ") && inside.trim()) inside = inside.slice(1, -1);
  reader.nodes.push({ tag: "code", properties: { dir: "ltr" }, children: [revealed(inside)] });
  reader.at = end + ticks;
}

function runLength(/** @type {string} */ text, /** @type {number} */ at) {
  let end = at;
  while (end < text.length && text[end] === text[at]) end += 1;
  return end - at;
}

/* Links. */

function open(/** @type {Reader} */ reader, /** @type {number} */ length) {
  reader.opens.push({ place: reader.nodes.length, isImage: length === 2 });
  literal(reader, length);
}

function close(/** @type {Reader} */ reader) {
  const opened = reader.opens.pop();
  const target = opened && reader.text[reader.at + 1] === "(" ? destination(reader.text, reader.at + 2) : null;
  const address = target && safeAddress(target.address);
  if (!opened || !target || !address) {
    literal(reader);
    return;
  }
  const inside = emphasis(reader.nodes.splice(opened.place).slice(1)).map(opened.isImage ? plainly : withoutLinks);
  if (opened.isImage) inside.unshift("Image: ");
  if (!inside.length) inside.push(address);
  reader.nodes.push(anchor(address, inside));
  // No link within a link.
  if (!opened.isImage) reader.opens = reader.opens.filter(({ isImage }) => isImage);
  reader.at = target.end;
}

/** @type {(it: Inline) => string} */
const plainly = (it) => (typeof it === "string" ? it : it.children.map(plainly).join(""));
/** @type {(it: Inline) => Inline} the text of an image within a link is part of the link's text */
const withoutLinks = (it) =>
  (typeof it === "string" ? it : it.tag === "a" ? plainly(it) : { ...it, children: it.children.map(withoutLinks) });

/** What follows `](`: an address, perhaps in angle brackets, perhaps with a title, and `)`. */
function destination(/** @type {string} */ text, /** @type {number} */ from) {
  const limit = Math.min(text.length, from + LONGEST_ADDRESS);
  let at = from;
  while (at < limit && text[at] === " ") at += 1;
  const isAngled = text[at] === "<";
  const begin = isAngled ? at + 1 : at;
  let depth = 0;
  for (at = begin; at < limit; at += 1) {
    const it = text[at];
    if (it === "\n" || (isAngled ? it === ">" : it === " ")) break;
    if (isAngled && it === "<") return null;
    if (!isAngled && it === "(" && (depth += 1) > DEEPEST) return null;
    if (!isAngled && it === ")" && depth-- === 0) break;
  }
  const address = text.slice(begin, at);
  if (isAngled && text[at++] !== ">") return null;
  at = title(text, at, limit);
  return text[at] === ")" ? { address, end: at + 1 } : null;
}

function title(/** @type {string} */ text, /** @type {number} */ from, /** @type {number} */ limit) {
  let at = from;
  while (at < limit && SPACE.test(text[at])) at += 1;
  if (text[at] !== '"' && text[at] !== "'") return at;
  const end = text.indexOf(text[at], at + 1);
  if (end < 0 || end > limit) return from;
  at = end + 1;
  while (at < limit && SPACE.test(text[at])) at += 1;
  return at;
}

function angled(/** @type {Reader} */ reader) {
  const { text, at } = reader;
  const end = text.slice(at, at + LONGEST_ADDRESS).search(/[>\s]/);
  const inside = end > 0 && text[at + end] === ">" ? text.slice(at + 1, at + end) : "";
  const address = inside.includes(":") ? safeAddress(inside) : null;
  if (!address) {
    literal(reader);
    return;
  }
  reader.nodes.push(anchor(address, [inside]));
  reader.at += end + 1;
}

/** An address without any markup. */
function bare(/** @type {Reader} */ reader) {
  const { text, at } = reader;
  const isBegin = at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]);
  const scheme = isBegin ? ["https://", "http://"].find((scheme) => text.startsWith(scheme, at)) : null;
  const length = scheme ? bareLength(text.slice(at, at + LONGEST_ADDRESS)) : 0;
  const address = scheme && length > scheme.length ? safeAddress(text.slice(at, at + length)) : null;
  // Within a link it is part of the link's text.
  if (!address || reader.opens.some(({ isImage }) => !isImage)) {
    literal(reader, scheme ? scheme.length : 1);
    return;
  }
  reader.nodes.push(anchor(address, [text.slice(at, at + length)]));
  reader.at += length;
}

/** How much of a text is an address: without trailing punctuation, or a closing bracket that was opened before it. */
function bareLength(/** @type {string} */ text) {
  const end = text.search(/[\s<>"`*|\u202A-\u202E\u2066-\u2069]/);
  let length = end < 0 ? text.length : end;
  let depth = 0;
  for (let at = 0; at < length; at += 1) {
    if (text[at] === "(") depth += 1;
    if (text[at] === ")" && depth-- === 0) length = at;
  }
  while (length && ".,:;!?'_~]".includes(text[length - 1])) length -= 1;
  return length;
}

/** An address that may be followed, or null. */
export function safeAddress(/** @type {string} */ text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** @type {(address: string, children: Inline[]) => Tagged} */
function anchor(address, children) {
  const properties = { href: address, title: address, rel: "noopener noreferrer", target: "_blank" };
  return { tag: "a", properties, children: [...children, ...truth(address, children.map(plainly).join(""))] };
}

/** If the text of a link names another host than the link leads to, the real host is added. */
function truth(/** @type {string} */ address, /** @type {string} */ said) {
  const { host } = new URL(address);
  const [, claimed] = /^\s*(?:https?:\/\/)?([^\s/?#]+\.[^\s/?#]{2,})(?:[/?#]|\s*$)/i.exec(said) ?? [];
  return claimed && host && claimed.toLowerCase() !== host ? [` (${host})`] : [];
}

/* Emphasis: each run of marks opens, closes, or is text, depending on what is next to it. */

function marks(/** @type {Reader} */ reader) {
  const { text, at } = reader;
  const count = runLength(text, at);
  const before = at ? before_(text, at) : " ";
  const after = at + count < text.length ? String.fromCodePoint(text.codePointAt(at + count) ?? 0) : " ";
  const [isSpaceBefore, isSpaceAfter] = [SPACE.test(before), SPACE.test(after)];
  const [isMarkBefore, isMarkAfter] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
  const isLeft = !isSpaceAfter && (!isMarkAfter || isSpaceBefore || isMarkBefore);
  const isRight = !isSpaceBefore && (!isMarkBefore || isSpaceAfter || isMarkAfter);
  const mark = text[at];
  const inWord = mark === "_";
  const canOpen = isLeft && (!inWord || !isRight || isMarkBefore);
  const canClose = isRight && (!inWord || !isLeft || isMarkAfter);
  if ((mark === "~" && count !== 2) || count > DEEPEST || (!canOpen && !canClose)) literal(reader, count);
  else {
    reader.nodes.push({ mark, count, all: count, canOpen, canClose });
    reader.at += count;
  }
}

function before_(/** @type {string} */ text, /** @type {number} */ at) {
  const low = text.charCodeAt(at - 1);
  return low >= 0xdc00 && low <= 0xdfff && at > 1 ? text.slice(at - 2, at) : text[at - 1];
}

/** Resolves the runs of marks in a list. Each frame is an open mark, and the first one is the list itself. */
function emphasis(/** @type {(Inline | Marks)[]} */ list) {
  /** @type {Frame[]} */
  const frames = [{ children: [] }];
  // For each kind of closing run, how many frames are known to have no match for it (invariant 1).
  const barren = new Map();
  for (const it of list) {
    if (typeof it === "string" || "tag" in it) {
      frames[frames.length - 1].children.push(it);
      continue;
    }
    if (it.canClose) closeMarks(frames, it, barren);
    if (it.count && it.canOpen && frames.length < DEEPEST) frames.push({ opener: it, children: [] });
    else if (it.count) frames[frames.length - 1].children.push(it.mark.repeat(it.count));
  }
  flatten(frames, 0);
  return joined(frames[0].children);
}

function closeMarks(/** @type {Frame[]} */ frames, /** @type {Marks} */ closer, /** @type {Map<string, number>} */ barren) {
  while (closer.count) {
    const kind = `${closer.mark}${closer.canOpen}${closer.all % 3}`;
    const found = opener(frames, closer, barren.get(kind) ?? 0);
    const frame = frames[found];
    if (!found || !frame.opener) {
      barren.set(kind, frames.length);
      return;
    }
    flatten(frames, found);
    const used = frame.opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const tag = closer.mark === "~" ? "del" : used === 2 ? "strong" : "em";
    const element = { tag, children: frame.children };
    frame.opener.count -= used;
    closer.count -= used;
    if (frame.opener.count) frame.children = [element];
    else {
      frames.pop();
      frames[frames.length - 1].children.push(element);
    }
    for (const [known, depth] of barren) if (depth > frames.length) barren.set(known, frames.length);
  }
}

function opener(/** @type {Frame[]} */ frames, /** @type {Marks} */ closer, /** @type {number} */ from) {
  for (let place = frames.length - 1; place >= Math.max(1, from); place -= 1) {
    const { opener } = frames[place];
    if (opener?.mark !== closer.mark) continue;
    const isOdd = (opener.canClose || closer.canOpen) && (opener.all + closer.all) % 3 === 0;
    if (!isOdd || (opener.all % 3 === 0 && closer.all % 3 === 0)) return place;
  }
  return 0;
}

/** Turns the frames above one into text, and adds them to it. */
function flatten(/** @type {Frame[]} */ frames, /** @type {number} */ place) {
  const into = frames[place].children;
  for (const { opener, children } of frames.splice(place + 1)) {
    if (opener) into.push(opener.mark.repeat(opener.count));
    for (const child of children) into.push(child);
  }
}

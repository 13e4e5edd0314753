// Turns lines of markdown into blocks, and blocks into elements.
//
// 1. A block that has been passed on never changes: nothing that follows affects it. So a text can be drawn while it is being
//    written, and gives the same elements as if it had arrived at once.
// 2. The length of a block is bounded; a longer one continues in the next (`isJoined`). So redrawing the last block stays cheap.
// 3. Nothing nests deeper than `DEEPEST`: below that, everything is plain text.
// 4. Each block has its own text direction, and no direction mark in it affects another block.

import { copyButton } from "../copy.js";
import { h } from "../dom.js";
import { inline, revealed } from "./inline.js";

/** Roughly the most characters in a block (invariant 2). */
export const BLOCK = 8_000;
const CODE_BLOCK = 8 * BLOCK;
const DEEPEST = 8;
/** How many rows of a table or lines of a list make up a block before it continues in the next. */
const ROWS = 200;

/**
 * A block. What it has besides its kind depends on the kind; what it lacks is empty.
 * @typedef {{kind: "paragraph" | "plain" | "heading" | "rule" | "fence" | "quote" | "list" | "table", lines?: string[], isJoined?: boolean,
 *   text?: string, level?: number, ticks?: string, info?: string, indent?: number, isOrdered?: boolean, start?: number | null,
 *   isEmpty?: boolean, columns?: Align[], head?: string}} Block
 * @typedef {Block & {lines: string[], size: number}} OpenBlock a block to which lines can be added
 * @typedef {"start" | "center" | "end"} Align
 */

/** Collects lines into blocks. `hand` is called with each complete block. */
export class Blocks {
  /**
   * @param {(block: Block) => void} hand
   * @param {OpenBlock | null} [open]
   */
  constructor(hand, open = null) {
    this.hand = hand;
    this.open = open;
  }

  /** Takes a line. `isRest`: it continues the previous one, which was too long. */
  line(/** @type {string} */ text, isRest = false) {
    const { open } = this;
    if (open?.kind === "fence") this.inFence(open, text, isRest);
    else if (isRest) {
      this.end();
      this.hand({ kind: "plain", text, isJoined: true });
    } else if (!open || !STAYS[open.kind](this, open, text)) {
      this.end();
      this.begin(text);
    }
  }

  /** Ends the open block. */
  end() {
    if (this.open) this.hand(this.open);
    this.open = null;
  }

  /** The blocks that there would be if the text ended with this line. */
  peek(/** @type {string} */ text, /** @type {boolean} */ isRest) {
    /** @type {Block[]} */
    const seen = [];
    const open = this.open && { ...this.open, lines: [...this.open.lines] };
    const after = new Blocks((block) => seen.push(block), open);
    if (text) after.line(text, isRest);
    after.end();
    return seen;
  }

  begin(/** @type {string} */ text) {
    if (isBlank(text)) return;
    const found = beginning(text);
    if (found?.kind === "heading" || found?.kind === "rule") this.hand(found);
    else if (found?.kind === "fence") this.open = { ...found, lines: [], size: 0 };
    else this.open = { kind: /** @type {const} */ ("paragraph"), ...found, lines: [text], size: text.length };
  }

  /** Adds a line to the open block; if that gets too long, it continues in another one (invariant 2). */
  push(/** @type {OpenBlock} */ open, /** @type {string} */ text, bound = BLOCK) {
    const isLong = open.size + text.length > bound || (open.kind === "table" && open.lines.length >= ROWS);
    const isNew = isLong && open.lines.length > 0;
    if (isNew) this.hand(open);
    const into = isNew ? { ...open, lines: [], size: 0, isJoined: true, head: undefined } : open;
    this.open = into;
    into.lines.push(text);
    into.size += text.length + 1;
    return true;
  }

  inFence(/** @type {OpenBlock} */ open, /** @type {string} */ text, /** @type {boolean} */ isRest) {
    if (!isRest && closesFence(text, open)) {
      this.end();
      return;
    }
    if (isRest && open.lines.length && open.size < CODE_BLOCK) open.lines[open.lines.length - 1] += text;
    else this.push(open, unindented(text, open.indent ?? 0), CODE_BLOCK);
    if (isRest) open.size += text.length;
  }
}

/* Whether a line belongs to the open block: true if it was added. */

/** @type {Record<string, (blocks: Blocks, open: OpenBlock, text: string) => boolean>} */
const STAYS = {
  paragraph(blocks, open, text) {
    if (isBlank(text)) return false;
    const level = underline(text);
    if (level && !open.isJoined) {
      open.kind = "heading";
      open.level = level;
      open.text = open.lines.map((line) => line.trim()).join("\n");
      blocks.end();
      return true;
    }
    if (open.lines.length === 1 && !open.isJoined && isTable(open.lines[0], text)) {
      open.kind = "table";
      open.columns = columns(text) ?? [];
      open.head = open.lines.pop();
      return true;
    }
    return !interrupts(text) && blocks.push(open, text);
  },
  table: (blocks, open, text) => !isBlank(text) && !beginning(text) && blocks.push(open, text),
  quote(blocks, open, text) {
    if (isBlank(text)) return false;
    const found = beginning(text);
    return (!found || found.kind === "quote") && blocks.push(open, text);
  },
  list(blocks, open, text) {
    if (isBlank(text)) return blocks.push(open, "", 4 * BLOCK);
    const found = beginning(text);
    if (indentOf(text) >= (open.indent ?? 0) + 2) return blocks.push(open, text, 4 * BLOCK);
    if (found?.kind === "list") return found.isOrdered === open.isOrdered && nextItem(blocks, open, found, text);
    return !found && open.lines.at(-1) !== "" && blocks.push(open, text, 4 * BLOCK);
  },
};

/**
 * The next item of a list: a long list continues in another one, between two items.
 * @param {Blocks} blocks
 * @param {OpenBlock} open
 * @param {Block} found
 * @param {string} text
 */
function nextItem(blocks, open, found, text) {
  const isLong = open.size + text.length > BLOCK || open.lines.length >= ROWS;
  if (isLong) blocks.hand(open);
  return blocks.push(isLong ? { ...found, lines: [], size: 0, isJoined: true } : open, text, 4 * BLOCK);
}

/** Whether a line ends a paragraph: a number at the start of a sentence does not. */
function interrupts(/** @type {string} */ text) {
  const found = beginning(text);
  return found !== null && (found.kind !== "list" || (!found.isEmpty && (!found.isOrdered || found.start === 1)));
}

/* What a line starts. */

const isBlank = (/** @type {string} */ text) => text.trim() === "";

function indentOf(/** @type {string} */ text) {
  let at = 0;
  while (text[at] === " " || text[at] === "\t") at += text[at] === "\t" ? 4 : 1;
  return at;
}

/**
 * What a line starts, if it is not plain text.
 * @param {string} text
 * @returns {Block | null}
 */
function beginning(text) {
  const indent = indentOf(text);
  const bare = text.trimStart();
  const first = bare[0];
  if (first === "#" && indent < 4) return heading(bare);
  if ((first === "`" || first === "~") && indent < 4) return fence(bare, indent);
  if (first === ">" && indent < 4) return { kind: "quote" };
  if (isRule(bare) && indent < 4) return { kind: "rule" };
  const marker = /^([-*+]|\d{1,9}[.)])( |\t|$)/.exec(bare)?.[1];
  if (!marker) return null;
  const isOrdered = marker.length > 1;
  const isEmpty = isBlank(bare.slice(marker.length));
  return { kind: "list", indent, isOrdered, start: isOrdered ? parseInt(marker, 10) : null, isEmpty };
}

/** @type {(bare: string) => Block | null} */
function heading(bare) {
  const level = /^#{1,6}(?= |\t|$)/.exec(bare)?.[0].length;
  if (!level) return null;
  let text = bare.slice(level).trim();
  const closing = /(^| )#+$/.exec(text.slice(-64));
  if (closing) text = text.slice(0, text.length - closing[0].length).trimEnd();
  return { kind: "heading", level, text };
}

/** @type {(bare: string, indent: number) => Block | null} */
function fence(bare, indent) {
  const ticks = /^(`{3,}|~{3,})/.exec(bare)?.[0];
  if (!ticks) return null;
  const info = bare.slice(ticks.length).trim();
  return ticks[0] === "`" && info.includes("`") ? null : { kind: "fence", ticks, indent, info };
}

function closesFence(/** @type {string} */ text, /** @type {Block} */ { ticks = "" }) {
  const bare = text.trim();
  return indentOf(text) < 4 && bare.length >= ticks.length && bare === ticks[0].repeat(bare.length);
}

function isRule(/** @type {string} */ bare) {
  const marks = bare.replace(/[ \t]/g, "");
  return marks.length > 2 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
}

/** The level of the heading that this line turns the line above into, if it does. */
function underline(/** @type {string} */ text) {
  const bare = text.trim();
  if (!bare || indentOf(text) > 3) return null;
  return bare === "=".repeat(bare.length) ? 1 : bare.length > 1 && bare === "-".repeat(bare.length) ? 2 : null;
}

const unindented = (/** @type {string} */ text, /** @type {number} */ most) => text.slice(Math.min(most, indentOf(text), text.length - text.trimStart().length));

/* Tables. */

function isTable(/** @type {string} */ head, /** @type {string} */ text) {
  if (!text.includes("-") || !head.includes("|") || !text.includes("|")) return false;
  const wanted = columns(text);
  return wanted !== null && wanted.length === cells(head).length;
}

/**
 * The alignment of the columns, if this is the delimiter row.
 * @param {string} text
 */
function columns(text) {
  /** @type {Align[]} */
  const found = [];
  for (const cell of cells(text)) {
    const bare = cell.slice(cell.startsWith(":") ? 1 : 0, cell.endsWith(":") ? -1 : undefined);
    if (!bare || bare !== "-".repeat(bare.length)) return null;
    found.push(cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start");
  }
  return found;
}

function cells(/** @type {string} */ text) {
  const bare = text.trim();
  const found = [""];
  for (let at = bare.startsWith("|") ? 1 : 0; at < bare.length; at += 1) {
    if (bare[at] === "\\" && bare[at + 1] === "|") found[found.length - 1] += bare[++at];
    else if (bare[at] === "|") found.push("");
    else found[found.length - 1] += bare[at];
  }
  if (found.length > 1 && isBlank(found[found.length - 1])) found.pop();
  return found.map((cell) => cell.trim());
}

/* Elements. */

/**
 * The element of a block.
 * @param {Block} block
 * @returns {HTMLElement}
 */
export function element(block, depth = 0) {
  const made = MAKE[block.kind](block, depth);
  if (block.isJoined) made.classList.add("joined");
  return made;
}

const AUTO = { dir: "auto" };

/** @type {Record<Block["kind"], (block: Block, depth: number) => HTMLElement>} */
const MAKE = {
  paragraph: ({ lines = [] }) => h("p", AUTO, inline(lines.map((line) => line.trim()).join("\n"))),
  plain: ({ text = "" }) => h("div", { class: "plain", dir: "auto" }, text),
  // Below the headings of the page itself.
  heading: ({ level = 1, text = "" }) => h(`h${Math.min(6, level + 2)}`, { dir: "auto", class: `level-${level}` }, inline(text)),
  rule: () => h("hr"),
  fence: ({ lines = [], info = "" }) => codeBox(lines.join("\n"), info),
  quote({ lines = [] }, depth) {
    const inside = lines.map((line) => line.replace(/^ {0,3}> ?/, ""));
    return h("blockquote", AUTO, within(inside, depth));
  },
  list({ lines = [], isOrdered, start, indent = 0 }, depth) {
    const { items, isLoose } = itemsOf(lines, indent);
    const all = items.map((item) => h("li", AUTO, itemNodes(item, depth, isLoose)));
    return isOrdered ? h("ol", { start: start === 1 ? null : start }, all) : h("ul", null, all);
  },
  table({ lines = [], columns = [], head }) {
    const row = (/** @type {"td" | "th"} */ tag) => (/** @type {string} */ line) => {
      const found = cells(line);
      // Extra cells in a row are kept.
      const length = Math.max(columns.length, found.length);
      const all = Array.from({ length }, (_, at) => [columns[at] ?? "start", found[at] ?? ""]);
      return h("tr", null, all.map(([align, cell]) => h(tag, { class: `to-${align}`, dir: "auto" }, inline(cell))));
    };
    const top = head === undefined ? null : h("thead", null, row("th")(head));
    return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" },
      h("table", null, top, h("tbody", null, lines.map(row("td")))));
  },
};

/** The content of a quote or an item. */
function within(/** @type {string[]} */ lines, /** @type {number} */ depth) {
  if (depth >= DEEPEST) return [h("p", AUTO, lines.join("\n"))];
  /** @type {HTMLElement[]} */
  const all = [];
  const blocks = new Blocks((block) => all.push(element(block, depth + 1)));
  for (const line of lines) blocks.line(line);
  blocks.end();
  return all;
}

/** @typedef {string[] & {width?: number}} Item the lines of an item, and their indentation */

function itemsOf(/** @type {string[]} */ lines, /** @type {number} */ indent) {
  /** @type {Item[]} */
  const items = [];
  let isLoose = false;
  let wasBlank = false;
  for (const line of lines) {
    const found = indentOf(line) < indent + 2 ? beginning(line) : null;
    if (found?.kind === "list") {
      isLoose ||= wasBlank && items.length > 0;
      items.push([line.trimStart().replace(/^([-*+]|\d{1,9}[.)])[ \t]?/, "")]);
    } else {
      if (!items.length) items.push([]);
      const item = items[items.length - 1];
      item.push(unindented(line, indent + deep(item, indentOf(line) - indent, line)));
    }
    wasBlank = line === "";
  }
  return { items, isLoose };
}

/** The indentation of the lines of an item: two or three spaces, or a tab. */
const deep = (/** @type {Item} */ item, /** @type {number} */ places, /** @type {string} */ line) => (line === "" ? 0 : item.width ??= Math.min(4, Math.max(2, places)));

/** @type {Record<string, string>} */
const BOX = { "[ ]": "☐ ", "[x]": "☑ ", "[X]": "☑ " };

function itemNodes(/** @type {string[]} */ lines, /** @type {number} */ depth, /** @type {boolean} */ isLoose) {
  const box = BOX[lines[0]?.slice(0, 3)];
  const said = box ? [box + lines[0].slice(3).trimStart(), ...lines.slice(1)] : lines;
  const all = within(said, depth);
  // In a list without blank lines an item is a line, not a paragraph.
  const isOne = all.filter(({ tagName }) => tagName === "P").length < 2;
  return isLoose || !isOne ? all : all.flatMap((made) => (made.tagName === "P" ? [...made.childNodes] : [made]));
}

/** A box with code, and a button that copies it. */
function codeBox(/** @type {string} */ text, /** @type {string} */ info) {
  // The text is copied as it was written, not as it is shown.
  /** @type {HTMLElement & {written?: string}} */
  const code = h("code", null, revealed(text));
  code.written = text;
  const copy = copyButton("Copy", () => code.written ?? text);
  copy.classList.add("plain");
  return h("div", { class: "code", dir: "ltr" }, h("div", { class: "title" }, h("span", null, revealed(info) || "text"), copy),
    h("pre", { tabindex: "0" }, code));
}

// JSON with one value per line.
//
// 1. Only white space between values changes: numbers are not rounded, and duplicate names stay. Whoever approves arguments sees
//    exactly what the tool will get.

const LONGEST = 1_000_000;

/**
 * @param {string} text
 * @returns {string} the text itself if it is not JSON
 */
export function pretty(text) {
  if (text.length > LONGEST || !isJson(text)) return text;
  const made = [];
  let depth = 0;
  const newLine = () => made.push("\n", "  ".repeat(depth));
  for (const token of tokens(text)) {
    const isEmpty = (token === "}" && made.at(-1) === "{") || (token === "]" && made.at(-1) === "[");
    if ((made.at(-1) === "{" || made.at(-1) === "[") && !isEmpty) {
      depth += 1;
      newLine();
    } else if ((token === "}" || token === "]") && !isEmpty) {
      depth -= 1;
      newLine();
    } else if (made.at(-1) === ",") newLine();
    made.push(token === ":" ? ": " : token);
  }
  return made.join("");
}

/** The tokens: brackets, punctuation and values. */
function* tokens(/** @type {string} */ text) {
  for (let at = 0; at < text.length;) {
    const end = tokenEnd(text, at);
    const token = text.slice(at, end);
    if (token.trim()) yield token;
    at = end;
  }
}

const ALONE = "{}[],: \t\n\r";

function tokenEnd(/** @type {string} */ text, /** @type {number} */ from) {
  if (ALONE.includes(text[from])) return from + 1;
  let at = from + 1;
  if (text[from] !== '"') {
    while (at < text.length && !ALONE.includes(text[at])) at += 1;
    return at;
  }
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function isJson(/** @type {string} */ text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

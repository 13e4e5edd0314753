// Elements, with text as text.
//
// 1. Children are always shown as text: nothing that a model or a user wrote can become a tag.
// 2. What changes often is written at most once per frame (`everyFrame`).

const SVG = "http://www.w3.org/2000/svg";

/**
 * Makes an element. Functions (`onclick`) become listeners; everything else (`class`, `data-*`, `aria-*`, `role`) becomes an
 * attribute. `null`, `undefined` and `false` are left out; `true` is an empty attribute.
 * @template {string} Tag
 * @param {Tag} tag such as "button", or "svg:rect" for an SVG element
 * @param {Record<string, unknown> | null} [properties]
 * @param {...(Node | string | number | null | undefined | false | Array<unknown>)} children
 * @returns {Made<Tag>}
 */
export function h(tag, properties, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return /** @type {Made<Tag>} */ (/** @type {unknown} */ (element));
}

/**
 * An element that index.html has.
 * @param {string} id
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no element with the id ${id}`);
  return found;
}

/**
 * Sets one property of an element, as `h` does.
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
export function set(element, name, value) {
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  } else if (name.startsWith("on")) {
    throw new TypeError(`${name} is not a function: text never becomes a listener`);
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {unknown[]} children */
function nodes(children) {
  const flat = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return flat.map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/**
 * Replaces all children of an element.
 * @template {Element} E
 * @param {E} element
 * @param {...unknown} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/**
 * Sets an element's text if it has changed, so that nothing is redrawn needlessly.
 * @param {Element} element
 * @param {string | number} text
 */
export function write(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/**
 * Returns a function that schedules `work` for the next frame, once, however often it is called before then. A hidden page has no
 * frames; there the work is done within a second.
 * @param {() => void} work
 * @param {AbortSignal} [signal] once aborted, nothing more is done
 */
export function everyFrame(work, signal) {
  let waits = false;
  return () => {
    if (waits || signal?.aborted) return;
    waits = true;
    const now = () => {
      document.removeEventListener("visibilitychange", now);
      if (!waits) return;
      waits = false;
      if (!signal?.aborted) work();
    };
    // Nothing waits for a frame while the page is being hidden, and a page that becomes visible is up to date.
    document.addEventListener("visibilitychange", now);
    if (document.hidden) setTimeout(now, 1000);
    else requestAnimationFrame(now);
  };
}

/** Announces something to screen readers, once. */
export function announce(/** @type {string} */ text) {
  const place = document.getElementById("announce");
  if (!place) return;
  // Repeating the same words has to count as a new announcement.
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 30);
}

/** Loads one of the page's style sheets, once. */
export function styled(/** @type {string} */ file) {
  const known = document.querySelector(`link[href="${file}"]`);
  if (known) return Promise.resolve();
  const sheet = h("link", { rel: "stylesheet", href: file });
  /** @type {Promise<void>} */
  const loaded = new Promise((done) => {
    sheet.onload = () => done();
    // If it fails to load, the next call tries again.
    sheet.onerror = () => { sheet.remove(); done(); };
  });
  document.head.append(sheet);
  return loaded;
}

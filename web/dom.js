// Elements, with text as text.
//
// 1. Whatever is given as a child is shown as it is: nothing that a model or a user wrote can become a tag.
// 2. What changes often is written once a frame at most (`everyFrame`).

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Properties that are functions are listeners (`onclick`), `class` and `data-*`, `aria-*`, `role` and the like
 * are attributes; `null`, `undefined` and `false` are left out; `true` is an empty attribute.
 * @param {string} tag such as "button", or "svg:rect" for a drawing
 * @param {Record<string, unknown> | null} [properties]
 * @param {...(Node | string | number | null | undefined | false | Array<unknown>)} children
 * @returns {any}
 */
export function h(tag, properties, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return element;
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

/** Sets one property of an element, as `h` does. */
export function set(element, name, value) {
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), value);
  } else if (name.startsWith("on")) {
    throw new TypeError(`${name} is no function: text is never a listener`);
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function nodes(children) {
  const flat = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return flat.map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Puts these children in the place of all that an element has. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Writes a text where it is another one: nothing is drawn anew for nothing. */
export function write(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/**
 * A function that does `work` in the next frame, however often it is called before. In a page that nobody sees there are no
 * frames: there it is done within a second.
 * @param {() => void} work
 * @param {AbortSignal} [signal] after its end nothing is done
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
    // Who comes back to the page finds it as it is, and who leaves it misses nothing that waited for a frame.
    document.addEventListener("visibilitychange", now);
    if (document.hidden) setTimeout(now, 1000);
    else requestAnimationFrame(now);
  };
}

/** Says something once to those who listen instead of looking. */
export function announce(text) {
  const place = document.getElementById("announce");
  if (!place) return;
  // The same words twice are two announcements.
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 30);
}

/** Loads a style sheet of the page, once. */
export function styled(file) {
  const known = document.querySelector(`link[href="${file}"]`);
  if (known) return Promise.resolve();
  const sheet = h("link", { rel: "stylesheet", href: file });
  /** @type {Promise<void>} */
  const loaded = new Promise((done) => {
    sheet.onload = () => done();
    // One that did not come is asked for again the next time.
    sheet.onerror = () => { sheet.remove(); done(); };
  });
  document.head.append(sheet);
  return loaded;
}

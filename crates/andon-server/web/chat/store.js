// Storage for this tab. If it is full or not allowed, everything works without it.

/** Stores a text, or removes it if it is empty. */
export function store(/** @type {string} */ key, /** @type {string | null} */ text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch { /* It is just not there after a reload. */ }
}

/** The stored text, or null. */
export function stored(/** @type {string} */ key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

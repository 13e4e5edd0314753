// What is kept for this tab. Where it cannot be kept (storage is full or not allowed), everything goes on without it.

/** Keeps a text, or nothing. */
export function store(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch { /* It is not there after a reload. That is all. */ }
}

/** What was kept, or nothing. */
export function stored(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

// What this tab stores until it is closed. Each tab has its own, so tabs do not disturb each other.
// If the browser stores nothing (some private windows, blocked cookies), values last until the page
// is closed.

const PREFIX = "torvyn.";
const memory = new Map();

export function recall(name) {
  if (memory.has(name)) return memory.get(name);
  try {
    return window.sessionStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return "";
  }
}

// Whether it survives a reload. An empty text is deleted.
export function remember(name, text) {
  memory.set(name, text);
  try {
    if (text) window.sessionStorage.setItem(PREFIX + name, text);
    else window.sessionStorage.removeItem(PREFIX + name);
  } catch {
    return false;
  }
  memory.delete(name);
  return true;
}

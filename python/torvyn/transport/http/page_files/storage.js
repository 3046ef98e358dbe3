// What this tab remembers until it is closed. Each tab has its own, so tabs cannot disturb each
// other. Where the browser keeps nothing (some private windows, blocked cookies), it is remembered
// until the page is left.

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

// Whether it will be there after a reload. An empty text is forgotten.
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

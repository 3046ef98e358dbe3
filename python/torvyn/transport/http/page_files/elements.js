// Creates elements. Children are nodes or text, so no text is ever parsed as HTML.

export function element(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

export function part(name, kind, ...children) {
  const node = element(name, ...children);
  node.className = kind;
  return node;
}

export function button(words, kind) {
  const node = part("button", kind, words);
  node.type = "button";
  return node;
}

// Content that is too wide can be scrolled, also by keyboard.
export function scrollable(node) {
  node.tabIndex = 0;
  return node;
}

export function checkbox(isDone) {
  const node = element("input");
  node.type = "checkbox";
  node.defaultChecked = isDone;
  node.disabled = true;
  node.setAttribute("aria-label", isDone ? "Done" : "To do");
  return node;
}

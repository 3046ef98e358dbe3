// Creates elements. Children are nodes or text, so no text is ever parsed as HTML.

export function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

export function part(name, kind, ...children) {
  const made = element(name, ...children);
  made.className = kind;
  return made;
}

export function button(words, kind) {
  const made = part("button", kind, words);
  made.type = "button";
  return made;
}

// Content that is too wide can be scrolled, also by keyboard.
export function scrollable(made) {
  made.tabIndex = 0;
  return made;
}

export function checkbox(isDone) {
  const made = element("input");
  made.type = "checkbox";
  made.defaultChecked = isDone;
  made.disabled = true;
  made.setAttribute("aria-label", isDone ? "Done" : "To do");
  return made;
}

// Tables of Markdown: a line with bars, a line of dashes under it, and rows.

import { element, inline } from "./inline.js";

const DASHES = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

// Whether the words make a table's head of the line above them.
export function isUnderline(words, above) {
  if (!DASHES.test(words) || !words.includes("|") || !above.includes("|")) return false;
  return cells(words).length === cells(above).length;
}

export class Table {
  #rows = element("tbody");
  #width;

  constructor(head) {
    const names = cells(head);
    this.#width = names.length;
    const top = element("thead", this.#row("th", names));
    this.body = scrollable(element("div", element("table", top, this.#rows)));
    this.body.className = "table";
  }

  add(words) {
    this.#rows.append(this.#row("td", cells(words)));
  }

  #row(name, words) {
    const made = element("tr");
    for (let i = 0; i < this.#width; i++) {
      made.append(element(name, ...inline(words[i] ?? "").nodes));
    }
    return made;
  }
}

// Also by keyboard.
export function scrollable(made) {
  made.tabIndex = 0;
  return made;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

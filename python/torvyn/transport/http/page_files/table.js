// Tables of Markdown: a line with bars, a line of dashes under it, and rows.

import { element, scrollable } from "./elements.js";
import { inline } from "./inline.js";

const DASHES = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

// Whether the line makes the line above it the head of a table.
export function isUnderline(words, above) {
  if (!DASHES.test(words) || !words.includes("|") || !above.includes("|")) return false;
  return cells(words).length === cells(above).length;
}

export class Table {
  #rows = element("tbody");
  #width;
  #sides;

  // The line of dashes sets the alignment of each column.
  constructor(head, dashes) {
    const names = cells(head);
    this.#width = names.length;
    this.#sides = cells(dashes).map(side);
    const top = element("thead", this.#row("th", names));
    this.body = scrollable(element("div", element("table", top, this.#rows)));
    this.body.className = "table";
  }

  add(words) {
    this.#rows.append(this.#row("td", cells(words)));
  }

  #row(name, words) {
    const row = element("tr");
    for (let i = 0; i < this.#width; i++) {
      const cell = element(name, ...inline(words[i] ?? "").nodes);
      if (this.#sides[i]) cell.className = this.#sides[i];
      row.append(cell);
    }
    return row;
  }
}

function side(dashes) {
  if (!dashes.endsWith(":")) return dashes.startsWith(":") ? "left" : "";
  return dashes.startsWith(":") ? "center" : "right";
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

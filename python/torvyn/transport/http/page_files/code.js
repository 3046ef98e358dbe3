// An open block of code: its lines as they are, until the line that closes it.

import { button, element, part, scrollable } from "./elements.js";

export class Code {
  kind = "code";
  body;
  source = ""; // text that is not drawn yet
  #text = document.createTextNode("");
  #fence;
  #indent;
  #lines = 0;

  constructor(fence, language, indent) {
    this.#fence = fence;
    this.#indent = indent;
    const head = element("div", element("span", language || "code"), button("Copy", "copy"));
    const lines = scrollable(element("pre", element("code", this.#text)));
    this.body = part("div", "code", head, lines);
  }

  // Takes a line, or the beginning of one; false when the line closes the block.
  begin(line) {
    const words = line.trim();
    const isFence = words === this.#fence[0].repeat(words.length);
    if (isFence && words.length >= this.#fence.length) return false;
    const space = line.length - line.trimStart().length;
    this.source += (this.#lines++ ? "\n" : "") + line.slice(Math.min(space, this.#indent));
    return true;
  }

  draw() {
    this.#text.appendData(this.source);
    this.source = "";
  }
}

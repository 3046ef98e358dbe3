// A line of Markdown -> DOM nodes: code, strong, emphasis, strikethrough, links, escapes.
// The result has only elements of a fixed list and text nodes: text of a model is never parsed as
// HTML, and only web addresses become links.

import { element } from "./elements.js";

const SPECIAL = /[\\`*_~[<]|!\[|https?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;
const ADDRESS = /https?:\/\/[^\s<>"`]+/y;
const TARGET = /\(\s*<?(https?:\/\/[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const HALF_TARGET = /(?:\([^\s)]*)?$/y;
const MOST_DEPTH = 6;
const MOST_LABEL = 500;
// An open mark is shown as if it were closed, up to this length.
const HOPE = 160;

// `isOpen`: more text may follow. Returns the nodes, and the length that later text cannot change.
export function inline(text, isOpen = false, depth = 0) {
  const parser = new Inline(text, isOpen, depth);
  parser.run();
  return { nodes: parser.nodes, settled: parser.settled };
}

class Inline {
  nodes = [];
  #text;
  #isOpen;
  #depth;
  #plain = "";
  #at = 0;
  #unsure = Infinity;
  #lastSpace = 0;
  #missing = new Set();

  constructor(text, isOpen, depth) {
    this.#text = text;
    this.#isOpen = isOpen;
    this.#depth = depth;
  }

  get settled() {
    return Math.min(this.#unsure, this.#lastSpace);
  }

  run() {
    const text = this.#text;
    while (this.#at < text.length) {
      SPECIAL.lastIndex = this.#at;
      const found = SPECIAL.exec(text);
      this.#say(text.slice(this.#at, found ? found.index : text.length));
      if (!found) break;
      this.#at = found.index;
      if (!this.#mark(found[0])) {
        this.#say(found[0]);
        this.#at += found[0].length;
      }
    }
    this.#flush();
  }

  #say(words) {
    const space = Math.max(words.lastIndexOf(" "), words.lastIndexOf("\n"));
    if (space >= 0) this.#lastSpace = this.#at + space + 1;
    this.#plain += words;
  }

  #flush() {
    if (this.#plain) this.nodes.push(document.createTextNode(this.#plain));
    this.#plain = "";
  }

  #add(node, end) {
    this.#flush();
    this.nodes.push(node);
    this.#at = end;
    return true;
  }

  #isUnsure() {
    this.#unsure = Math.min(this.#unsure, this.#at);
    return this.#isOpen && this.#text.length - this.#at < HOPE;
  }

  #mark(mark) {
    if (mark === "\\") return this.#escape();
    if (mark === "`") return this.#code();
    if (mark === "[" || mark === "![") return this.#link(mark.length);
    if (mark === "<") return this.#bracketed();
    if (mark.startsWith("http")) return this.#address();
    return this.#emphasis(mark);
  }

  #escape() {
    const next = this.#text[this.#at + 1] ?? "";
    // At the end of a line it is a line break, which is there anyway.
    if (!PUNCTUATION.test(next) && next !== "\n") return false;
    this.#plain += next;
    this.#at += 2;
    return true;
  }

  #code() {
    const text = this.#text;
    const begin = runEnd(text, this.#at, "`");
    const mark = text.slice(this.#at, begin);
    let end = this.#missing.has(mark) ? -1 : codeEnd(text, begin, mark.length);
    if (end < 0) {
      this.#missing.add(mark);
      if (!this.#isUnsure() || begin === text.length) {
        this.#plain += mark;
        this.#at = begin;
        return true;
      }
      return this.#add(element("code", text.slice(begin)), text.length);
    }
    let inner = text.slice(begin, end);
    if (/^ .*[^ ].* $/s.test(inner)) inner = inner.slice(1, -1);
    return this.#add(element("code", inner), end + mark.length);
  }

  #emphasis(char) {
    const text = this.#text;
    const length = Math.min(runEnd(text, this.#at, char) - this.#at, char === "~" ? 2 : 3);
    const mark = char.repeat(length);
    const begin = this.#at + length;
    const say = () => {
      this.#plain += mark;
      this.#at = begin;
      return true;
    };
    if (begin === text.length) this.#isUnsure();
    if (!this.#canOpen(char, length, begin)) return say();
    const end = this.#missing.has(mark) ? -1 : emphasisEnd(text, begin, char, length);
    if (end >= 0) return this.#add(this.#wrapped(mark, text.slice(begin, end), false), end + length);
    this.#missing.add(mark);
    if (!this.#isUnsure()) return say();
    return this.#add(this.#wrapped(mark, text.slice(begin), true), text.length);
  }

  #canOpen(char, length, begin) {
    const next = this.#text[begin];
    if (next === undefined || /\s/.test(next) || this.#depth >= MOST_DEPTH) return false;
    if (char === "~") return length === 2;
    return char === "*" || !WORD.test(this.#text[this.#at - 1] ?? "");
  }

  #wrapped(mark, words, isOpen) {
    const inner = inline(words, isOpen, this.#depth + 1).nodes;
    if (mark[0] === "~") return element("del", ...inner);
    if (mark.length === 3) return element("em", element("strong", ...inner));
    return element(mark.length === 2 ? "strong" : "em", ...inner);
  }

  // Images become links: this page loads nothing from other origins.
  #link(length) {
    const text = this.#text;
    const begin = this.#at + length;
    if (this.#depth >= MOST_DEPTH) return false;
    const end = begin > text.lastIndexOf("]") ? -1 : labelEnd(text, begin);
    if (end < 0) {
      this.#isUnsure();
      return false;
    }
    TARGET.lastIndex = HALF_TARGET.lastIndex = end + 1;
    const words = text.slice(begin, end);
    const target = TARGET.exec(text);
    if (target) {
      const label = words ? inline(words, false, MOST_DEPTH).nodes : [target[1]];
      return this.#add(anchor(target[1], label), end + 1 + target[0].length);
    }
    if (this.#isOpen && HALF_TARGET.test(text) && this.#isUnsure()) {
      return this.#add(document.createTextNode(words), text.length);
    }
    return false;
  }

  // The only HTML is the line break, which has no other notation in table cells.
  #bracketed() {
    const line = /<br *\/?>/iy;
    line.lastIndex = this.#at;
    if (line.test(this.#text)) return this.#add(element("br"), line.lastIndex);
    const found = /<(https?:\/\/[^\s<>]+)>/y;
    found.lastIndex = this.#at;
    const match = found.exec(this.#text);
    return match !== null && this.#add(anchor(match[1], [match[1]]), found.lastIndex);
  }

  #address() {
    ADDRESS.lastIndex = this.#at;
    let address = ADDRESS.exec(this.#text)?.[0].replace(/[.,:;!?'*_~]+$/, "") ?? "";
    while (address.endsWith(")") && count(address, ")") > count(address, "(")) {
      address = address.slice(0, -1);
    }
    if (!/^https?:\/\/./.test(address) || this.#depth >= MOST_DEPTH) return false;
    return this.#add(anchor(address, [address]), this.#at + address.length);
  }
}

function anchor(address, label) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return document.createTextNode(address);
  }
  const link = element("a", ...label);
  link.href = url.href;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

function runEnd(text, at, char) {
  while (text[at] === char) at++;
  return at;
}

function codeEnd(text, at, length) {
  while ((at = text.indexOf("`", at)) >= 0) {
    const end = runEnd(text, at, "`");
    if (end - at === length) return at;
    at = end;
  }
  return -1;
}

function emphasisEnd(text, at, char, length) {
  while (at < text.length) {
    if (text[at] === "\\") at += 2;
    else if (text[at] === "`") at = afterCode(text, at);
    else if (text[at] !== char) at++;
    else {
      const end = runEnd(text, at, char);
      const fits = end - at === length || end - at > Math.max(2, length);
      if (fits && canClose(text, at, end, char)) return end - length;
      at = end;
    }
  }
  return -1;
}

function canClose(text, at, end, char) {
  return !/\s/.test(text[at - 1]) && (char !== "_" || !WORD.test(text[end] ?? ""));
}

function afterCode(text, at) {
  const begin = runEnd(text, at, "`");
  const end = codeEnd(text, begin, begin - at);
  return end < 0 ? begin : end + begin - at;
}

function labelEnd(text, at) {
  const limit = Math.min(text.length, at + MOST_LABEL);
  for (let depth = 1; at < limit; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "[") depth++;
    else if (text[at] === "]" && --depth === 0) return at;
  }
  return -1;
}

function count(text, char) {
  return text.split(char).length - 1;
}

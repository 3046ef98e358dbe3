// Markdown that is still being written -> DOM, block by block. Only the open block is touched when
// text arrives, and of a long paragraph only its end, so an answer of any length costs the same per
// token. The start of a line is held back until it is clear what it begins.

import { element, inline } from "./inline.js";
import { Table, isUnderline, scrollable } from "./table.js";

// Lines of these alone could still become a rule, a heading, a list, a fence or a table.
const UNCLEAR = /^[\s>\-*+_#~`|:\d.)=]*$/;
const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/s;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])([ \t]+|$)/;
const QUOTE = /^ {0,3}> ?/;
const ROW = /^[\s>]*\|/;
// Quotes and lists inside each other; what lies deeper is text.
const MOST_INSIDE = 12;
// Of the open paragraph: what is settled before its last characters is never drawn again.
const TAIL = 500;
const MOST_TAIL = 2000;

export class Markdown {
  #root;
  #onBlock;
  #inside = []; // open quotes and items, the outermost first: {kind, body, list?, mark?, indent?, least?}
  #leaf = null; // the open block of text: {kind, body, ...}
  #line = ""; // what is held back
  #isWithin = false; // the line's start is known, the rest goes to the leaf

  // `onBlock` gets each block of text when it is complete.
  constructor(root, onBlock = () => {}) {
    this.#root = root;
    this.#onBlock = onBlock;
  }

  put(text) {
    let at = 0;
    for (let end; (end = text.indexOf("\n", at)) >= 0; at = end + 1) {
      this.#piece(text.slice(at, end));
      this.#newline();
    }
    this.#piece(text.slice(at));
    this.#draw(true);
  }

  finish() {
    if (this.#line || this.#isWithin) this.#newline();
    this.#close(0);
  }

  #piece(words) {
    if (!words) return;
    if (this.#isWithin) {
      this.#leaf.source += words;
      return;
    }
    this.#line += words;
    if (this.#isClear()) {
      this.#begin(this.#line);
      this.#line = "";
      this.#isWithin = true;
    }
  }

  #newline() {
    if (!this.#isWithin) this.#begin(this.#line);
    if (this.#leaf?.kind === "heading") this.#closeLeaf();
    this.#line = "";
    this.#isWithin = false;
  }

  #isClear() {
    const line = this.#line;
    if (this.#leaf?.kind === "code") return !/^[\s>]*[`~]*\s*$/.test(line);
    if (UNCLEAR.test(line) || this.#leaf?.kind === "table" || ROW.test(line)) return false;
    return !FENCE.test(line.replace(/^[\s>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*/, ""));
  }

  // A line, or as much of it as says what it begins.
  #begin(line) {
    line = line.replaceAll("\t", "    ");
    if (this.#leaf?.kind === "code") return this.#codeLine(line);
    let [depth, rest] = this.#matched(line);
    if (/^\s*$/.test(rest)) return this.#blank(depth);
    const lazy = depth < this.#inside.length && this.#leaf?.kind === "text";
    const before = this.#inside.length;
    let opened = false;
    for (let next; (next = this.#container(rest, depth)) !== null; depth++) {
      rest = next;
      opened = true;
    }
    const isLazy = lazy && !opened && !this.#isBlock(rest);
    this.#block(rest, isLazy ? before : depth);
  }

  // How many of the open quotes and items the line continues, and what it says inside them.
  #matched(line) {
    let depth = 0;
    for (const { kind, indent, least } of this.#inside) {
      const space = line.length - line.trimStart().length;
      if (kind === "quote") {
        if (!QUOTE.test(line)) break;
        line = line.replace(QUOTE, "");
      } else {
        // A blank line leaves an item open.
        if (line.trim() && space < least) break;
        line = line.slice(Math.min(space, indent));
      }
      depth++;
    }
    return [depth, line];
  }

  #blank(depth) {
    const quote = this.#inside.findIndex(({ kind }) => kind === "quote");
    if (quote >= depth) this.#close(quote);
    this.#closeLeaf();
  }

  // Opens the quote or item that the words begin with; gives what it says inside, or null.
  #container(words, depth) {
    if (depth >= MOST_INSIDE) return null;
    if (QUOTE.test(words)) {
      this.#close(depth);
      const body = element("blockquote");
      this.#append(body);
      this.#inside.push({ kind: "quote", body });
      return words.replace(QUOTE, "");
    }
    const found = ITEM.exec(words);
    if (!found || RULE.test(words) || (found[4] === "" && this.#leaf?.kind === "text")) return null;
    const [whole, space, mark, number, gap] = found;
    const kind = mark.at(-1);
    const list = this.#inside[depth]?.mark === kind ? this.#inside[depth].list : null;
    this.#close(depth);
    const body = element("li");
    const home = list ?? this.#list(number);
    home.append(body);
    const width = gap.length > 4 || !gap ? 1 : gap.length;
    const indent = space.length + mark.length + width;
    // Many indent by two, however wide the mark.
    const least = Math.min(indent, space.length + 2);
    this.#inside.push({ kind: "item", body, list: home, mark: kind, indent, least });
    return words.slice(Math.min(whole.length, indent));
  }

  #list(number) {
    const list = element(number === undefined ? "ul" : "ol");
    if (number !== undefined && Number(number) !== 1) list.start = Number(number);
    this.#append(list);
    return list;
  }

  #isBlock(words) {
    return RULE.test(words) || HEADING.test(words) || FENCE.test(words);
  }

  #block(words, depth) {
    const fence = FENCE.exec(words);
    const heading = HEADING.exec(words);
    if (this.#leaf?.kind === "table" && depth === this.#inside.length && words.includes("|")) {
      this.#leaf.table.add(words);
    } else if (fence) {
      this.#close(depth);
      this.#openCode(fence[1], fence[2], words.length - words.trimStart().length);
    } else if (heading) {
      this.#close(depth);
      this.#open("heading", `h${heading[1].length}`, heading[2]);
    } else if (this.#isTable(words, depth)) {
      this.#openTable();
    } else if (RULE.test(words)) {
      this.#close(depth);
      this.#append(element("hr"));
    } else if (this.#leaf?.kind === "text" && depth === this.#inside.length) {
      this.#leaf.source += `\n${words.trimStart()}`;
      this.#leaf.lines++;
    } else {
      this.#close(depth);
      this.#open("text", "p", words.trimStart());
    }
  }

  #open(kind, name, source) {
    const body = element(name);
    this.#append(body);
    this.#leaf = { kind, body, source, lines: 1, kept: 0 };
  }

  // Code

  #openCode(fence, language, indent) {
    const code = element("code", document.createTextNode(""));
    const copy = element("button", "Copy");
    copy.type = "button";
    copy.className = "copy";
    const head = element("div", element("span", language || "code"), copy);
    const body = element("div", head, scrollable(element("pre", code)));
    body.className = "code";
    this.#append(body);
    this.#leaf = { kind: "code", body, text: code.firstChild, fence, indent, source: "", lines: 0 };
  }

  #codeLine(line) {
    const leaf = this.#leaf;
    for (const { kind, indent } of this.#inside) {
      const space = line.length - line.trimStart().length;
      line = kind === "quote" ? line.replace(QUOTE, "") : line.slice(Math.min(space, indent));
    }
    const words = line.trim();
    const isFence = words === leaf.fence[0].repeat(words.length);
    if (isFence && words.length >= leaf.fence.length) return this.#closeLeaf();
    const space = line.length - line.trimStart().length;
    leaf.source += (leaf.lines++ ? "\n" : "") + line.slice(Math.min(space, leaf.indent));
  }

  // Tables

  #isTable(words, depth) {
    const leaf = this.#leaf;
    const isOneLine = leaf?.kind === "text" && leaf.lines === 1 && depth === this.#inside.length;
    return isOneLine && isUnderline(words, leaf.source);
  }

  #openTable() {
    const { body: paragraph, source } = this.#leaf;
    const table = new Table(source);
    paragraph.replaceWith(table.body);
    this.#leaf = { kind: "table", body: table.body, table };
  }

  // Drawing and closing

  #append(node) {
    this.#closeLeaf();
    (this.#inside.at(-1)?.body ?? this.#root).append(node);
  }

  #draw(isOpen) {
    const leaf = this.#leaf;
    if (!leaf?.source) return;
    if (leaf.kind === "code") {
      leaf.text.appendData(leaf.source);
      leaf.source = "";
      return;
    }
    const { nodes, settled } = inline(leaf.source, isOpen);
    while (leaf.body.childNodes.length > leaf.kept) leaf.body.lastChild.remove();
    leaf.body.append(...nodes);
    const isLong = leaf.source.length > MOST_TAIL;
    if (isOpen && (settled > TAIL || isLong)) this.#keep(isLong ? lastSpace(leaf.source) : settled);
  }

  #keep(length) {
    const leaf = this.#leaf;
    const done = inline(leaf.source.slice(0, length)).nodes;
    while (leaf.body.childNodes.length > leaf.kept) leaf.body.lastChild.remove();
    leaf.body.append(...done);
    leaf.kept = leaf.body.childNodes.length;
    leaf.source = leaf.source.slice(length);
    leaf.lines++;
    leaf.body.append(...inline(leaf.source, true).nodes);
  }

  #closeLeaf() {
    if (this.#leaf === null) return;
    this.#draw(false);
    const { body } = this.#leaf;
    this.#leaf = null;
    this.#onBlock(body);
  }

  #close(depth) {
    this.#closeLeaf();
    if (this.#inside.length > depth) this.#inside.length = depth;
  }
}

function lastSpace(text) {
  return Math.max(text.lastIndexOf(" "), text.lastIndexOf("\n")) + 1 || text.length;
}

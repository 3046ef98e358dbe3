// Streamed Markdown -> DOM, block by block. New text changes only the open block, and of a long
// paragraph only its end, so the cost per token does not grow with the answer. The start of a line is
// held back until it is clear which block it begins.

import { Code } from "./code.js";
import { checkbox, element } from "./elements.js";
import { inline } from "./inline.js";
import {
  FENCE, HALF_DASHES, HALF_TASK, HEADING, ITEM, MARKS, QUOTE, ROW, RULE, TASK, UNCLEAR,
} from "./marks.js";
import { Table, isUnderline } from "./table.js";

// The deepest nesting of quotes and lists; deeper ones are text.
const MOST_INSIDE = 12;
// Characters at the end of the open paragraph that may be drawn again.
const TAIL = 500;
const MOST_TAIL = 2000;

export class Markdown {
  #root;
  #onBlock;
  #inside = []; // open quotes and items, the outermost first: {kind, body, list?, mark?, indent?, least?}
  #leaf = null; // the open block of text: {kind, body, ...}
  #line = ""; // text that is held back
  #isWithin = false; // the line's start is known, the rest goes to the leaf

  // Calls `onBlock` with the text of each complete block.
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
    if (HALF_TASK.test(line)) return false;
    return !FENCE.test(line.replace(/^[\s>]*(?:(?:[-*+]|\d{1,9}[.)])[\s>]+)*/, ""));
  }

  // Takes a line, or enough of it to know which block it begins.
  #begin(line) {
    if (this.#leaf?.kind === "code") return this.#codeLine(line);
    line = line.replace(MARKS, (marks) => marks.replaceAll("\t", "    "));
    let [depth, rest] = this.#matched(line);
    if (/^\s*$/.test(rest)) return this.#blank(depth);
    const lazy = depth < this.#inside.length && this.#leaf?.kind === "text";
    const before = this.#inside.length;
    let opened = false;
    for (let next; (next = this.#container(rest, depth)) !== null; depth++) {
      rest = next;
      opened = true;
    }
    if (!rest.trim()) return;
    const isLazy = lazy && !opened && !this.#isBlock(rest);
    this.#block(rest, isLazy ? before : depth);
  }

  // How many of the open quotes and items the line continues, and its text inside them.
  #matched(line) {
    let depth = 0;
    for (const outer of this.#inside) {
      const space = line.length - line.trimStart().length;
      if (outer.kind === "quote") {
        if (!QUOTE.test(line)) break;
        line = line.replace(QUOTE, "");
      } else {
        // A blank line leaves an item open.
        if (line.trim() && space < outer.least) break;
        // Text that is indented less than the item's sets the indent of the lines after it.
        if (line.trim()) outer.indent = Math.min(outer.indent, space);
        line = line.slice(Math.min(space, outer.indent));
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

  // Opens the quote or item that the text begins with; returns the text inside, or null.
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
    if (!found || RULE.test(words) || !this.#mayBegin(found, depth)) return null;
    const [whole, space, mark, number, gap] = found;
    const kind = mark.at(-1);
    const list = this.#inside[depth]?.mark === kind ? this.#inside[depth].list : null;
    this.#close(depth);
    const body = element("li");
    const home = list ?? this.#list(number);
    home.append(body);
    const width = gap.length > 4 || !gap ? 1 : gap.length;
    const indent = space.length + mark.length + width;
    // Many models indent by two, however wide the mark is.
    const least = Math.min(indent, space.length + 2);
    this.#inside.push({ kind: "item", body, list: home, mark: kind, indent, least });
    return words.slice(Math.min(whole.length, indent));
  }

  // An empty item, or a number other than 1, does not end a paragraph.
  #mayBegin([, , , number, gap], depth) {
    if (this.#leaf?.kind !== "text" || depth < this.#inside.length) return true;
    return gap !== "" && (number === undefined || Number(number) === 1);
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
    if (this.#leaf?.kind === "table" && depth === this.#inside.length && !this.#isBlock(words)) {
      this.#leaf.table.add(words);
    } else if (fence) {
      this.#close(depth);
      const code = new Code(fence[1], fence[2], words.length - words.trimStart().length);
      this.#append(code.body);
      this.#leaf = code;
    } else if (heading) {
      this.#close(depth);
      this.#open("heading", `h${heading[1].length}`, heading[2]);
    } else if (this.#isTable(words, depth)) {
      this.#openTable(words);
    } else if (RULE.test(words)) {
      this.#close(depth);
      this.#append(element("hr"));
    } else if (this.#leaf?.kind === "text" && depth === this.#inside.length) {
      this.#leaf.source += `\n${words.trimStart()}`;
      this.#leaf.lines++;
    } else {
      this.#close(depth);
      this.#openText(words.trimStart());
    }
  }

  #openText(words) {
    const item = this.#inside.at(-1);
    const task = item?.kind === "item" && !item.body.hasChildNodes() ? TASK.exec(words) : null;
    this.#open("text", "p", task ? words.slice(task[0].length) : words);
    if (!task) return;
    item.body.className = "task";
    this.#leaf.body.append(checkbox(task[1] !== " "), " ");
    this.#leaf.kept = 2;
  }

  #open(kind, name, source) {
    const body = element(name);
    this.#append(body);
    this.#leaf = { kind, body, source, lines: 1, kept: 0 };
  }

  #codeLine(line) {
    if (this.#inside.length) line = line.replace(/^[\s>]*/, (lead) => lead.replaceAll("\t", "    "));
    for (const { kind, indent } of this.#inside) {
      const space = line.length - line.trimStart().length;
      line = kind === "quote" ? line.replace(QUOTE, "") : line.slice(Math.min(space, indent));
    }
    if (!this.#leaf.begin(line)) this.#closeLeaf();
  }

  // Tables

  #isTable(words, depth) {
    const leaf = this.#leaf;
    if (leaf?.kind !== "text" || depth !== this.#inside.length) return false;
    const head = lastLine(leaf.source);
    // Part of a long line may already be final.
    return (leaf.kept === 0 || head !== leaf.source) && isUnderline(words, head);
  }

  // The last line of the open paragraph becomes the head; the lines before it stay a paragraph.
  #openTable(dashes) {
    const { body: paragraph, source, lines } = this.#leaf;
    const head = lastLine(source);
    const table = new Table(head, dashes);
    if (lines === 1) {
      paragraph.replaceWith(table.body);
    } else {
      this.#leaf.source = source.slice(0, source.length - head.length - 1);
      this.#append(table.body);
    }
    this.#leaf = { kind: "table", body: table.body, table };
  }

  // How much of the open paragraph can be shown: a line that begins with a bar waits for the next
  // line, which shows whether it is the head of a table.
  #showable(leaf) {
    const head = lastLine(leaf.source);
    const isWaiting = !this.#isWithin && HALF_DASHES.test(this.#line) && head.startsWith("|");
    if (!isWaiting || leaf.kind !== "text") return leaf.source;
    return leaf.source.slice(0, Math.max(0, leaf.source.length - head.length - 1));
  }

  // Drawing and closing

  #append(node) {
    this.#closeLeaf();
    (this.#inside.at(-1)?.body ?? this.#root).append(node);
  }

  #draw(isOpen) {
    const leaf = this.#leaf;
    if (!leaf?.source) return;
    if (leaf.kind === "code") return leaf.draw();
    const { nodes, settled } = inline(isOpen ? this.#showable(leaf) : leaf.source, isOpen);
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
    if (this.#leaf.kind === "heading") this.#leaf.source = this.#leaf.source.replace(/(^|\s+)#+\s*$/, "");
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

function lastLine(text) {
  return text.slice(text.lastIndexOf("\n") + 1);
}

function lastSpace(text) {
  return Math.max(text.lastIndexOf(" "), text.lastIndexOf("\n")) + 1 || text.length;
}

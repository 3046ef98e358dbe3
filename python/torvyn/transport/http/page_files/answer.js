// One answer on the page: its text as it arrives, its reasoning, how it ended, its speed.
// Text is collected and drawn once per frame of the screen, however many tokens arrived.

import { button, element, part } from "./elements.js";
import { Markdown } from "./markdown.js";

const HIDDEN_MS = 250;
const ENDS = {
  length: "Cut off: the answer reached its token limit.",
  content_filter: "Ended by a guard: the rest was withheld.",
  tool_calls: "Ended to call a tool.",
  cancelled: "Cancelled.",
};
const LEFT = "Interrupted: you left the page before the answer was complete.";
const STATES = {
  waiting: "Waiting for the first token",
  streaming: "Writing",
  reconnecting: "The connection was cut. Reconnecting",
};

export class Answer {
  element = element("li");
  text = "";
  isOver = false;
  #flow;
  #pending = "";
  #thoughts = "";
  #timer = null;
  #failure = null;
  #remarks = [];
  #measured = [];
  #reasoning = null;
  #name = part("h2", "who");
  #state = part("p", "state");
  #body = part("div", "text");
  #notes = part("div", "notes");
  #figures = part("span", "figures");
  #markdown;
  #askedMs = performance.now();
  #firstMs = null;
  #onDraw;
  #onBlock;

  // `onDraw` is called after the page has changed, `onBlock` with each complete block or note.
  constructor(flow, onDraw = () => {}, onBlock = () => {}) {
    this.#onDraw = onDraw;
    this.#onBlock = onBlock;
    this.#markdown = new Markdown(this.#body, (block) => onBlock(block.textContent));
    this.element.className = "answer";
    const foot = part("div", "foot", this.#figures, button("Copy", "copy-answer"), button("Retry", "retry"));
    foot.hidden = true;
    this.element.append(this.#name, this.#body, this.#state, this.#notes, foot);
    this.#label(flow);
    this.state("waiting");
  }

  // As plain data, from which `restored` builds the same answer.
  record() {
    return {
      flow: this.#flow,
      text: this.text,
      thoughts: (this.#reasoning?.text.data ?? "") + this.#thoughts,
      calls: [...this.#notes.querySelectorAll(".call")].map(({ textContent }) => textContent),
      remarks: this.#remarks,
      failure: this.#failure,
      figures: this.#measured,
      isOver: this.isOver,
    };
  }

  static restored({ flow, text, thoughts = "", calls = [], remarks = [], failure, figures = [], isOver }) {
    const answer = new Answer(String(flow));
    answer.text = answer.#pending = text;
    answer.#thoughts = thoughts;
    for (const words of calls) answer.#notes.append(part("pre", "call", words));
    for (const words of remarks) answer.#note(words);
    if (failure) answer.fail(failure);
    else if (!isOver) answer.#note(LEFT);
    answer.#show(figures);
    answer.close();
    return answer;
  }

  frame(frame) {
    if (frame.type === "start") this.#label(frame.flow ?? this.#flow);
    else if (frame.type === "delta" && frame.index === 0) this.#delta(frame);
    else if (frame.type === "error") this.fail(frame);
    else if (frame.type === "end") this.#end(frame);
  }

  state(name) {
    this.element.dataset.state = name;
    this.#state.textContent = STATES[name] ?? "";
    this.#state.hidden = !(name in STATES);
  }

  // Shows once why the answer ended.
  fail({ message, hint, code }) {
    if (this.#failure) return;
    this.#failure = { message, hint, code };
    const note = part("div", "failure", element("strong", "The answer could not be completed"));
    note.append(element("p", message));
    if (hint) note.append(part("p", "small", hint));
    if (code) note.append(part("p", "small", element("code", code)));
    this.#notes.append(note);
  }

  // No more frames will arrive, with or without an end frame.
  close() {
    if (this.isOver) return;
    this.isOver = true;
    this.#draw();
    this.#markdown.finish();
    if (this.#reasoning) this.#reasoning.label.textContent = "Reasoning";
    this.state(this.#failure ? "failed" : "done");
    this.element.querySelector(".foot").hidden = false;
    this.element.querySelector(".copy-answer").hidden = !this.text;
    this.#onDraw();
  }

  stopped() {
    this.#note("Stopped.");
  }

  #delta({ kind, text, call }) {
    if (this.#firstMs === null) this.#first();
    if (kind === "reasoning") this.#thoughts += text;
    else if (kind === "tool_call") this.#call(call);
    else {
      this.#pending += text;
      this.text += text;
    }
    if (this.#timer !== null) return;
    this.#timer = document.hidden
      ? setTimeout(() => this.#draw(), HIDDEN_MS)
      : requestAnimationFrame(() => this.#draw());
  }

  #first() {
    this.#firstMs = performance.now();
    this.#show([["first token", seconds((this.#firstMs - this.#askedMs) / 1000)]]);
    this.state("streaming");
  }

  #draw() {
    this.#timer = null;
    if (this.#thoughts) this.#think(this.#thoughts);
    if (this.#pending) this.#markdown.put(this.#pending);
    this.#thoughts = this.#pending = "";
    this.#onDraw();
  }

  #think(words) {
    if (this.#reasoning === null) {
      const label = element("summary", "Reasoning…");
      const body = part("div", "thoughts", document.createTextNode(""));
      this.#reasoning = { label, text: body.firstChild };
      this.#body.before(part("details", "reasoning", label, body));
    }
    this.#reasoning.text.appendData(words);
  }

  #call({ index = 0, name, arguments: words = "" }) {
    let shown = this.#notes.querySelector(`[data-call="${Number(index)}"]`);
    if (!shown) {
      shown = part("pre", "call", document.createTextNode(`${name ?? "tool"} `));
      shown.dataset.call = Number(index);
      this.#notes.append(shown);
    }
    shown.firstChild.appendData(words);
  }

  #end({ finish = [], usage, timing }) {
    const { reason, stopped_by: by } = finish.find(({ index }) => index === 0) ?? {};
    if (by === "client") this.stopped();
    else if (reason === "error") this.fail({ message: "The server gave no reason." });
    else if (reason in ENDS) this.#note(ENDS[reason]);
    this.#measure(usage?.completion_tokens ?? 0, timing);
    this.close();
  }

  #measure(tokens, timing) {
    if (this.#firstMs === null) return;
    const tookS = (performance.now() - this.#firstMs) / 1000;
    // Text that arrived all at once has no speed here; the server knows how long it took.
    const rate = tookS > 0.05 ? (tokens - 1) / tookS : timing?.tokens_per_s;
    const figures = [["first token", seconds((this.#firstMs - this.#askedMs) / 1000)]];
    if (tokens > 1 && rate) figures.push(["tokens/s", short(rate)]);
    if (tokens) figures.push(["tokens", tokens.toLocaleString("en")]);
    this.#show(figures);
  }

  // The server says which flow answered, whatever the request named.
  #label(flow) {
    this.#flow = flow;
    this.#name.textContent = flow;
  }

  #show(figures) {
    this.#measured = figures;
    this.#figures.replaceChildren();
    for (const [name, value] of figures) {
      const isBefore = name === "first token";
      const words = isBefore ? [`${name} `, element("b", value)] : [element("b", value), ` ${name}`];
      this.#figures.append(element("span", ...words));
    }
  }

  #note(words) {
    if (this.#failure) return;
    this.#remarks.push(words);
    this.#notes.append(part("p", "note", words));
    this.#onBlock(words);
  }
}

export function seconds(value) {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export function short(value) {
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

// A conversation: its questions and answers, and the keys and buttons that control it.

import { Answer } from "./answer.js";
import { element, part } from "./elements.js";
import { keep, load } from "./history.js";
import { recall, remember } from "./storage.js";
import { Stream } from "./stream.js";

const NEAR = 80; // pixels from the end that still count as the end
const AT_END = 4;
const FORGETFUL = "The browser does not store this conversation: a reload would lose it.";
const SPOKEN = 4; // blocks that stay in the announcements

const find = (id) => document.getElementById(id);

export class Chat {
  #server;
  #settings;
  #turns = []; // {question, answer}
  #dropped = 0; // turns that were too old to survive a reload
  #stream = null;
  #isFollowing = true;
  #lastTop = 0;
  #onRefused;

  constructor(server, settings, onRefused) {
    this.#server = server;
    this.#settings = settings;
    this.#onRefused = onRefused;
    this.#restore(load());
    this.#listen();
  }

  get hasTurns() {
    return this.#turns.length > 0;
  }

  get isRunning() {
    return this.#stream !== null;
  }

  ask(words) {
    if (this.isRunning || !words.trim()) return;
    this.#add(words);
    this.#isFollowing = true;
    this.#answer();
  }

  #add(question) {
    const heading = part("h2", "unseen", "You");
    find("turns").append(part("li", "question", heading, part("div", "bubble", question)));
    find("empty").hidden = true;
    this.#turns.push({ question, answer: null });
  }

  clear() {
    this.#stream?.stop();
    this.#stream = null;
    this.#turns = [];
    this.#dropped = 0;
    this.#keep();
    find("turns").replaceChildren();
    find("empty").hidden = false;
    this.#show();
    find("words").focus();
  }

  stop() {
    this.#stream?.stop();
  }

  retry() {
    const turn = this.#turns.at(-1);
    if (this.isRunning || !turn) return;
    turn.answer.element.remove();
    this.#isFollowing = true;
    this.#answer();
  }

  async #answer() {
    const turn = this.#turns.at(-1);
    const flow = find("flow").value;
    const answer = new Answer(flow, () => this.#follow(), (words) => announce(words));
    turn.answer = null;
    const messages = this.#messages();
    turn.answer = answer;
    find("turns").append(answer.element);
    const stream = new Stream(this.#server, (frame) => answer.frame(frame), (state) => {
      answer.state(state);
      if (state === "reconnecting") announce("The connection was cut. Reconnecting.");
    });
    this.#stream = stream;
    this.#keep();
    this.#show();
    this.#follow();
    try {
      await stream.run({ flow, messages, ...this.#settings.sampling });
      if (!answer.isOver) answer.stopped();
    } catch (error) {
      answer.fail(error);
      announce(error.message);
      this.#onRefused(error);
    }
    answer.close();
    if (this.#stream === stream) this.#stream = null;
    this.#keep();
    this.#show();
  }

  // Reloads

  #keep() {
    const turns = this.#turns.map(({ question, answer }) => ({
      question,
      answer: answer?.record() ?? null,
    }));
    const view = { top: find("scroller").scrollTop, isFollowing: this.#isFollowing };
    const isKept = keep(turns, this.#dropped, view);
    this.#tell(isKept ? this.#lost() : FORGETFUL);
  }

  #tell(words) {
    find("dropped").textContent = words;
    find("dropped").hidden = !words;
  }

  #lost() {
    const count = this.#dropped;
    if (count === 0) return "";
    const what = count === 1 ? "question and its answer were" : "questions and their answers were";
    return `${count} earlier ${what} too long to keep; the model does not see them.`;
  }

  #restore(kept) {
    if (kept === null) return;
    this.#dropped = kept.dropped;
    for (const { question, answer } of kept.turns) {
      this.#add(question);
      if (answer === null) continue;
      const turn = this.#turns.at(-1);
      turn.answer = Answer.restored(answer);
      find("turns").append(turn.answer.element);
    }
    this.#tell(this.#lost());
    this.#isFollowing = kept.view.isFollowing;
    this.#follow();
    if (!this.#isFollowing) find("scroller").scrollTop = kept.view.top;
    this.#lastTop = find("scroller").scrollTop;
  }

  // The messages so far. A question without an answer is joined with the next one, because many
  // models expect the two sides to alternate.
  #messages() {
    const { system } = this.#settings;
    const messages = system ? [{ role: "system", content: system }] : [];
    for (const { question, answer } of this.#turns) {
      const last = messages.at(-1);
      if (last?.role === "user") last.content += `\n\n${question}`;
      else messages.push({ role: "user", content: question });
      if (answer?.text) messages.push({ role: "assistant", content: answer.text });
    }
    return messages;
  }

  // Buttons and the view

  #show() {
    const { isRunning } = this;
    const hadFocus = document.activeElement;
    find("send").hidden = isRunning;
    find("stop").hidden = !isRunning;
    find("send").disabled = isRunning || !find("words").value.trim() || find("flow").disabled;
    find("new").disabled = !this.hasTurns;
    for (const shown of document.querySelectorAll(".retry")) shown.hidden = true;
    const retry = this.#turns.at(-1)?.answer?.element.querySelector(".retry");
    if (retry && !isRunning) retry.hidden = false;
    if (hadFocus?.hidden || hadFocus?.disabled) find("words").focus();
  }

  refresh() {
    this.#show();
  }

  #follow() {
    const view = find("scroller");
    if (this.#isFollowing) view.scrollTop = view.scrollHeight;
    find("to-end").hidden = this.#isFollowing;
  }

  #listen() {
    const words = find("words");
    words.value = recall("draft");
    words.rows = rows(words.value);
    const send = (event) => {
      event.preventDefault();
      if (find("send").disabled) return;
      this.ask(words.value);
      words.value = "";
      words.rows = 1;
      this.#show();
    };
    find("composer").addEventListener("submit", send);
    words.addEventListener("input", () => {
      words.rows = rows(words.value);
      this.#show();
    });
    words.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isRunning && !find("settings").open) this.stop();
    });
    find("stop").addEventListener("click", () => this.stop());
    find("new").addEventListener("click", () => this.clear());
    find("turns").addEventListener("click", (event) => this.#click(event.target));
    find("to-end").addEventListener("click", () => {
      this.#isFollowing = true;
      this.#follow();
    });
    const view = find("scroller");
    view.addEventListener("scroll", () => this.#scrolled(view), { passive: true });
    // A keyboard that opens or a window that shrinks hides the end of the answer.
    new ResizeObserver(() => this.#follow()).observe(view);
    document.addEventListener("visibilitychange", () => document.hidden && this.#keep());
    window.addEventListener("pagehide", () => {
      this.#stream?.abandon();
      this.#keep();
      remember("draft", words.value);
    });
  }

  // A reader who scrolls up, however little, wants to read there.
  #scrolled(view) {
    const distance = view.scrollHeight - view.scrollTop - view.clientHeight;
    if (distance < AT_END) this.#isFollowing = true;
    else this.#isFollowing = view.scrollTop >= this.#lastTop && (this.#isFollowing || distance < NEAR);
    this.#lastTop = view.scrollTop;
    find("to-end").hidden = this.#isFollowing;
  }

  #click(target) {
    if (target.matches(".retry")) this.retry();
    else if (target.matches(".copy")) copy(target, target.closest(".code").querySelector("code").textContent);
    else if (target.matches(".copy-answer")) {
      copy(target, this.#turns.find(({ answer }) => answer?.element.contains(target))?.answer.text);
    }
  }
}

function rows(words) {
  return Math.min(8, words.split("\n").length);
}

async function copy(pressed, words) {
  const label = pressed.textContent;
  try {
    await navigator.clipboard.writeText(words);
    pressed.textContent = "Copied";
  } catch {
    // Browsers offer the clipboard only to local pages and over https.
    pressed.textContent = "Needs https";
  }
  setTimeout(() => (pressed.textContent = label), 1500);
}

// For screen readers: whole blocks, one after another, instead of every token.
function announce(words) {
  const region = find("announcements");
  region.append(element("p", words));
  while (region.childElementCount > SPOKEN) region.firstChild.remove();
}

// A conversation: what was said, what is being answered, and the keys and buttons for it.

import { Answer } from "./answer.js";
import { element, part } from "./elements.js";
import { Stream } from "./stream.js";

const NEAR = 80; // pixels from the end that count as being there
const SPOKEN = 4; // blocks that the voice keeps

const find = (id) => document.getElementById(id);

export class Chat {
  #server;
  #turns = []; // {question, answer}
  #stream = null;
  #isFollowing = true;
  #onRefused;

  constructor(server, onRefused) {
    this.#server = server;
    this.#onRefused = onRefused;
    this.#listen();
  }

  get isRunning() {
    return this.#stream !== null;
  }

  ask(words) {
    if (this.isRunning || !words.trim()) return;
    const item = part("li", "question", part("h2", "unseen", "You"), part("div", "bubble", words));
    find("turns").append(item);
    find("empty").hidden = true;
    this.#turns.push({ question: words, item, answer: null });
    this.#isFollowing = true;
    this.#answer();
  }

  clear() {
    this.#stream?.stop();
    this.#stream = null;
    this.#turns = [];
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
    const answer = new Answer(flow, () => this.#follow(), (words) => speak(words));
    turn.answer = null;
    const messages = this.#messages();
    turn.answer = answer;
    find("turns").append(answer.element);
    const stream = new Stream(this.#server, (frame) => answer.frame(frame), (state) => {
      answer.state(state);
      if (state === "reconnecting") speak("The connection was cut. Reconnecting.");
    });
    this.#stream = stream;
    this.#show();
    this.#follow();
    try {
      await stream.run({ flow, messages });
      if (!answer.isOver) answer.stopped();
    } catch (error) {
      answer.fail(error);
      speak(error.message);
      this.#onRefused(error);
    }
    answer.close();
    if (this.#stream === stream) this.#stream = null;
    this.#show();
  }

  // What was said so far. A question without an answer is put together with the next one, because
  // many models want the two sides to alternate.
  #messages() {
    const system = find("system").value.trim();
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
    find("new").disabled = this.#turns.length === 0;
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
      words.rows = Math.min(8, words.value.split("\n").length);
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
    view.addEventListener("scroll", () => {
      this.#isFollowing = view.scrollHeight - view.scrollTop - view.clientHeight < NEAR;
      find("to-end").hidden = this.#isFollowing;
    }, { passive: true });
    window.addEventListener("pagehide", () => this.#stream?.abandon());
  }

  #click(target) {
    if (target.matches(".retry")) this.retry();
    else if (target.matches(".copy")) copy(target, target.closest(".code").querySelector("code").textContent);
    else if (target.matches(".copy-answer")) {
      copy(target, this.#turns.find(({ answer }) => answer?.element.contains(target))?.answer.text);
    }
  }
}

async function copy(pressed, words) {
  const label = pressed.textContent;
  try {
    await navigator.clipboard.writeText(words);
    pressed.textContent = "Copied";
  } catch {
    // Browsers have a clipboard only for pages of this machine and of https.
    pressed.textContent = "Needs https";
  }
  setTimeout(() => (pressed.textContent = label), 1500);
}

// For screen readers: whole blocks, one after another, and not every token.
function speak(words) {
  const voice = find("voice");
  voice.append(element("p", words));
  while (voice.childElementCount > SPOKEN) voice.firstChild.remove();
}

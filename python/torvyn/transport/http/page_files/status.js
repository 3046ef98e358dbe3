// The activity panel: running streams, and flows with their counters. It polls only while it is
// visible.

import { seconds, short } from "./answer.js";
import { element, part } from "./elements.js";
import { recall, remember } from "./storage.js";

const EVERY_MS = 1500;
const ENDS = {
  stop: "finished",
  length: "cut by a limit",
  content_filter: "ended by a guard",
  tool_calls: "ended to call a tool",
  cancelled: "cancelled",
  error: "failed",
};

const find = (id) => document.getElementById(id);

export class Status {
  #server;
  #timer = null;
  #shown = "";

  constructor(server) {
    this.#server = server;
    find("open-status").addEventListener("click", () => {
      this.#toggle(find("status").hidden);
      // If the panel covers the page, move the keyboard focus there.
      if (getComputedStyle(find("status")).position === "fixed") find("close-status").focus();
    });
    find("close-status").addEventListener("click", () => {
      this.#toggle(false);
      find("open-status").focus();
    });
    find("status").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      find("close-status").click();
    });
    document.addEventListener("visibilitychange", () => this.#ask());
    if (recall("activity")) this.#toggle(true);
  }

  #toggle(isOpen) {
    find("status").hidden = !isOpen;
    find("open-status").setAttribute("aria-expanded", isOpen);
    document.body.classList.toggle("has-status", isOpen);
    remember("activity", isOpen ? "1" : "");
    this.#ask();
  }

  async #ask() {
    clearTimeout(this.#timer);
    if (find("status").hidden || document.hidden) return;
    try {
      this.#show(await this.#server.json("flows"));
      find("status-note").hidden = true;
    } catch (error) {
      find("status-note").textContent = error.message;
      find("status-note").hidden = false;
      // The key may not see it, and will not the next time either.
      if (error.status === 403) return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), EVERY_MS);
  }

  #show(found) {
    const shown = JSON.stringify(found);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const running = found.streams.map(stream);
    find("streams").replaceChildren(...(running.length ? running : [part("p", "small", "Nothing is running.")]));
    find("flows").replaceChildren(...found.flows.map(flow));
  }
}

function stream(held) {
  const figures = [["tokens", count(held.completion_tokens)]];
  if (held.tokens_per_s) figures.push(["tokens/s", short(held.tokens_per_s)]);
  if (held.ttft_s !== undefined) figures.push(["first token", seconds(held.ttft_s)]);
  if (held.duration_s !== undefined) figures.push(["for", seconds(held.duration_s)]);
  for (const { node, state, reason } of held.connections) {
    const isAway = state === "waiting" || state === "rejected";
    figures.push([node, isAway ? `${state}: ${reason}` : state]);
  }
  return card(held.flow, `${held.id} · ${held.dialect}`, figures);
}

function flow(held) {
  const ends = Object.entries(held.choices ?? {});
  const errors = Object.entries(held.errors ?? {});
  const figures = [
    ["running", count(held.streams)],
    ...ends.map(([reason, value]) => [ENDS[reason] ?? reason, count(value)]),
    ...errors.map(([code, value]) => [code, count(value)]),
    ["tokens in", count(held.prompt_tokens)],
    ["tokens out", count(held.completion_tokens)],
  ];
  const model = held.model ? `${held.engine} · ${held.model}` : held.engine;
  return card(held.name, model ?? "", figures);
}

function card(name, about, figures) {
  const list = element("dl");
  for (const [label, value] of figures) list.append(element("dt", label), element("dd", value));
  return part("section", "card", element("h4", name), part("p", "small", about), list);
}

function count(value) {
  return (value ?? 0).toLocaleString("en");
}

// The settings of this tab: the API key, the system prompt and the sampling options.

import { recall, remember } from "./storage.js";

const FIELDS = { system: "system", temperature: "temperature", max_tokens: "max-tokens" };
const WRONG = {
  temperature: "Temperature must be a number from 0 to 2, or empty.",
  "max-tokens": "Max tokens must be a whole number from 1 to 1,000,000, or empty.",
};

const find = (id) => document.getElementById(id);

export class Settings {
  #server;
  #onSave;

  constructor(server, onSave) {
    this.#server = server;
    this.#onSave = onSave;
    find("open-settings").addEventListener("click", () => this.open());
    find("cancel").addEventListener("click", () => find("settings").close(""));
    find("settings").addEventListener("close", () => this.#close());
    // One note in the dialog, instead of the browser's own bubbles.
    find("settings").addEventListener("invalid", (event) => this.#refuse(event), true);
    this.#show();
  }

  get system() {
    return recall("system").trim();
  }

  // The fields of a request that are set.
  get sampling() {
    const set = ["temperature", "max_tokens"].filter((name) => recall(name) !== "");
    return Object.fromEntries(set.map((name) => [name, Number(recall(name))]));
  }

  open(note = "") {
    this.#note(note);
    find("key").value = this.#server.key;
    for (const [name, id] of Object.entries(FIELDS)) find(id).value = recall(name);
    find("settings").returnValue = "";
    find("settings").showModal();
  }

  #close() {
    if (find("settings").returnValue !== "save") return;
    this.#server.key = find("key").value.trim();
    for (const [name, id] of Object.entries(FIELDS)) remember(name, find(id).value);
    this.#show();
    this.#onSave();
  }

  #refuse(event) {
    event.preventDefault();
    const wrong = find("settings").querySelector("input:invalid");
    this.#note(WRONG[wrong.id]);
    wrong.focus();
  }

  #note(words) {
    find("settings-note").textContent = words;
    find("settings-note").hidden = !words;
  }

  // Shows the options that differ from the flow's own next to the message field.
  #show() {
    const { temperature, max_tokens: most } = this.sampling;
    const words = [];
    if (temperature !== undefined) words.push(`Temperature ${temperature}`);
    if (most !== undefined) words.push(`at most ${most.toLocaleString("en")} tokens`);
    find("sampling").textContent = words.join(" · ");
    find("sampling").hidden = words.length === 0;
  }
}

// An event stream -> its events. Takes text in any pieces, returns whole events.
// Skips comments, which are heartbeats. An event has only its own id, not that of the one before.

export class EventStream {
  #rest = "";
  #data = [];
  #id = null;
  #onEvent;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  put(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length) this.#onEvent({ id: this.#id, data: this.#data.join("\n") });
      this.#data = [];
      this.#id = null;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
  }
}

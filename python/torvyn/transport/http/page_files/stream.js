// One answer, read to its end: sends the request, reads frames, and resumes after a cut connection.
// Each frame arrives once and in order, however often the connection was cut.

import { EventStream } from "./events.js";
import { Unreachable, rejection } from "./server.js";

const PAUSES_MS = [100, 500, 1000, 2000, 4000, 8000];
const PATIENCE_MS = 180_000;
// Heartbeats are far more frequent: after this much silence the connection is lost.
const SILENCE_MS = 45_000;
const STOPPING_MS = 3_000;

export class Cut extends Error {
  constructor(message) {
    super(message);
    this.hint = "The part that arrived is above.";
  }
}

export class Stream {
  #server;
  #onFrame;
  #onState;
  #connection = null;
  #id = null;
  #lastId = null;
  #lastSeq = 0;
  #attempt = 0;
  #isOver = false;
  #isStopped = false;
  #wake = () => {};

  constructor(server, onFrame, onState) {
    this.#server = server;
    this.#onFrame = onFrame;
    this.#onState = onState;
  }

  // Returns after the end frame or a stop; throws if no end frame can arrive.
  async run(body) {
    try {
      let response = await this.#open((signal) => this.#server.post(body, signal));
      while (response) {
        await this.#read(response);
        response = this.#isOver || this.#isStopped ? null : await this.#again();
      }
    } catch (error) {
      if (!this.#isStopped) throw error;
    } finally {
      this.#isOver = true;
    }
  }

  // Text that the engine holds back still arrives, then the end; if it does not, this is the end.
  async stop() {
    if (this.#isOver) return;
    const isConnected = this.#id !== null && this.#attempt === 0;
    if (isConnected) setTimeout(() => this.#leave(), STOPPING_MS);
    else this.#leave();
    if (this.#id !== null && !(await this.#tellStop())) this.#leave();
  }

  // Whether the server will send the end. Tries again when the network fails, because nobody wants
  // the rest of the answer.
  async #tellStop() {
    for (const pause of PAUSES_MS) {
      try {
        return (await this.#server.stop(this.#id)).status === 202;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    return false;
  }

  // The page is being closed: nobody will read the rest.
  abandon() {
    if (!this.#isOver && this.#id !== null) this.#server.stop(this.#id, true).catch(() => {});
  }

  #leave() {
    this.#isStopped = true;
    this.#connection?.abort();
    this.#wake();
  }

  #open(ask) {
    this.#connection = new AbortController();
    if (this.#isStopped) this.#connection.abort();
    return ask(this.#connection.signal);
  }

  async #read(response) {
    const events = new EventStream((event) => this.#event(event));
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    let alarm;
    try {
      while (!this.#isOver) {
        clearTimeout(alarm);
        alarm = setTimeout(() => this.#connection.abort(), SILENCE_MS);
        const { done, value } = await reader.read();
        if (done) return;
        events.put(decoder.decode(value, { stream: true }));
      }
    } catch (error) {
      if (error instanceof SyntaxError) throw new Cut("The server sent an invalid frame.");
      // The connection was cut.
    } finally {
      clearTimeout(alarm);
      reader.cancel().catch(() => {});
    }
  }

  #event({ id, data }) {
    const frame = JSON.parse(data);
    if (id === null) return this.#aside(frame);
    if (frame.type === "start") {
      if (this.#id !== null) return;
      this.#id = frame.id;
    } else {
      if (frame.seq <= this.#lastSeq) return;
      this.#lastSeq = frame.seq;
    }
    this.#lastId = id;
    this.#attempt = 0;
    this.#isOver = frame.type === "end";
    this.#onFrame(frame);
  }

  // Frames about this connection only, which ends here; the answer may continue without it.
  #aside(frame) {
    if (frame.type !== "error" || frame.retryable) return;
    this.#isOver = true;
    this.#onFrame(frame);
  }

  // Resumes the answer after the last frame that arrived.
  async #again() {
    if (this.#id === null) throw new Cut("The connection was cut before the answer began.");
    this.#onState("reconnecting");
    const path = `v1/streams/${encodeURIComponent(this.#id)}`;
    const headers = { accept: "text/event-stream", "last-event-id": this.#lastId };
    const since = performance.now();
    do {
      await this.#pause();
      if (this.#isStopped) return null;
      try {
        const response = await this.#open((signal) =>
          this.#server.ask(path, { headers, signal }),
        );
        if (response.status === 204) return null;
        if (response.ok) {
          this.#onState("streaming");
          return response;
        }
        if (response.status !== 429 && response.status < 500) throw await rejection(response);
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
      }
    } while (performance.now() - since < PATIENCE_MS);
    throw new Cut("The connection was cut, and the server could not be reached again.");
  }

  // Longer each time, with some jitter, and over at once when the network or the reader is back.
  #pause() {
    const pause = PAUSES_MS[Math.min(this.#attempt++, PAUSES_MS.length - 1)];
    const heard = new AbortController();
    const { signal } = heard;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake(), pause * (0.75 + Math.random() / 2));
      this.#wake = () => {
        clearTimeout(timer);
        heard.abort();
        resolve();
      };
      window.addEventListener("online", this.#wake, { signal });
      document.addEventListener("visibilitychange", this.#wake, { signal });
    });
  }
}

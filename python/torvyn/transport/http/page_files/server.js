// The server of this page: its addresses, the API key, and its errors.
// Addresses are relative to this file, so the page also works where the server is mounted.

import { recall, remember } from "./storage.js";

const ROOT = new URL("../", import.meta.url);

export class Rejected extends Error {
  constructor(status, error) {
    super(error.message || `The server answered with status ${status}.`);
    this.status = status;
    this.code = error.code || "";
    this.hint = error.hint || "";
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server could not be reached.");
    this.hint = "It may have been stopped, or the network is down.";
  }
}

export class Server {
  // Whether a stream outlives its connection here.
  #keepsStreams = true;

  get root() {
    return ROOT.href;
  }

  get key() {
    return recall("key");
  }

  set key(key) {
    remember("key", key);
  }

  // The response, also one with an error status; throws `Unreachable`.
  async ask(path, options = {}) {
    const headers = new Headers(options.headers);
    if (this.key) this.#show(headers);
    try {
      return await fetch(new URL(path, ROOT), { cache: "no-store", ...options, headers });
    } catch (error) {
      throw options.signal?.aborted ? error : new Unreachable();
    }
  }

  #show(headers) {
    try {
      headers.set("authorization", `Bearer ${this.key}`);
    } catch {
      throw new Rejected(401, { message: "The API key contains invalid characters." });
    }
  }

  async json(path) {
    const response = await this.ask(path);
    if (!response.ok) throw await rejection(response);
    return response.json();
  }

  async flows() {
    const { data } = await this.json("v1/models");
    return data.map((model) => model.id);
  }

  // Requests a stream, one that can be resumed if the server keeps such.
  async post(body, signal) {
    const response = await this.ask("v1/streams", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify({ ...body, stateful: this.#keepsStreams }),
      signal,
    });
    if (response.ok) return response;
    const error = await rejection(response);
    if (error.code !== "transport.stateful-refused") throw error;
    this.#keepsStreams = false;
    return this.post(body, signal);
  }

  // `isLeaving`: the page is being closed, and the request must outlive it.
  stop(id, isLeaving = false) {
    const path = `v1/streams/${encodeURIComponent(id)}`;
    return this.ask(path, { method: "DELETE", keepalive: isLeaving });
  }
}

export async function rejection(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy answered, not the server.
  }
  const wait = response.headers.get("retry-after");
  if (wait && !error.hint) error = { ...error, hint: `Try again in ${wait} s.` };
  return new Rejected(response.status, error);
}

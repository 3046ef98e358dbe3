// The conversation in the tab's storage, so that it survives a reload. Its size is bounded: the
// oldest turns go first, and how many went is kept with the rest.

import { recall, remember } from "./storage.js";

const VERSION = 1;
const MOST = 1_000_000; // characters
// Servers under several paths of one address have conversations of their own.
const NAME = `conversation:${new URL("../", import.meta.url).pathname}`;

// `turns` are plain objects, the oldest first. Whether at least the newest was kept.
export function keep(turns, dropped, view) {
  const texts = turns.map((turn) => JSON.stringify(turn));
  let first = texts.length;
  for (let left = MOST; first > 0 && texts[first - 1].length <= left; first--) {
    left -= texts[first - 1].length;
  }
  // The browser may have less room than that.
  for (; first < texts.length; first += Math.ceil((texts.length - first) / 8)) {
    const head = JSON.stringify({ version: VERSION, dropped: dropped + first, view });
    const kept = `${head.slice(0, -1)},"turns":[${texts.slice(first).join(",")}]}`;
    if (remember(NAME, kept)) return true;
  }
  return remember(NAME, "") && turns.length === 0;
}

// What was kept, or null. What another version has written is not read.
export function load() {
  try {
    const kept = JSON.parse(recall(NAME) || "null");
    return kept?.version === VERSION && kept.turns.every(isTurn) ? kept : null;
  } catch {
    return null;
  }
}

function isTurn({ question, answer }) {
  return typeof question === "string" && (answer === null || typeof answer.text === "string");
}

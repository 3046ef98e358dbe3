// The conversation in the tab's storage, so that it survives a reload. Its size is limited: the
// oldest turns are dropped first, and their number is stored.

import { recall, remember } from "./storage.js";

const VERSION = 1;
const MOST = 1_000_000; // characters
// Servers at different paths of one address have separate conversations.
const NAME = `conversation:${new URL("../", import.meta.url).pathname}`;

// `turns` are plain objects, the oldest first. Returns whether at least the newest was stored.
export function keep(turns, dropped, view) {
  const texts = turns.map((turn) => JSON.stringify(turn));
  let first = texts.length;
  for (let left = MOST; first > 0 && texts[first - 1].length <= left; first--) {
    left -= texts[first - 1].length;
  }
  // The browser may have less space than that.
  for (; first < texts.length; first += Math.ceil((texts.length - first) / 8)) {
    const head = JSON.stringify({ version: VERSION, dropped: dropped + first, view });
    const kept = `${head.slice(0, -1)},"turns":[${texts.slice(first).join(",")}]}`;
    if (remember(NAME, kept)) return true;
  }
  return remember(NAME, "") && turns.length === 0;
}

// The stored conversation, or null. One of another version is ignored.
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

// The start of the page: loads the flows, and fills the empty conversation.

import { Chat } from "./chat.js";
import { button, element } from "./elements.js";
import { Server } from "./server.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";
import { recall, remember } from "./storage.js";

const IDEAS = [
  "Explain back-pressure to a new colleague",
  "Compare TCP and QUIC in a table",
  "Write a Python function that merges two sorted lists",
];

const find = (id) => document.getElementById(id);
const server = new Server();
const settings = new Settings(server, connect);
const chat = new Chat(server, settings, (error) => {
  if (error.status === 401) settings.open(error.message);
});
new Status(server);

async function connect() {
  try {
    const flows = await server.flows();
    const picker = find("flow");
    picker.replaceChildren(...flows.map((name) => new Option(name)));
    const last = recall("flow");
    if (flows.includes(last)) picker.value = last;
    picker.disabled = false;
    welcome();
  } catch (error) {
    apologise(error);
  }
  chat.refresh();
}

function welcome() {
  find("trouble").hidden = true;
  find("empty-title").textContent = `Ask ${find("flow").value}`;
  find("empty-words").textContent = "Type a question below, or start with one of these.";
  find("ideas").replaceChildren(...IDEAS.map(idea));
  find("address").textContent = `${server.root}v1`;
  find("ideas").hidden = find("first-steps").hidden = false;
}

function idea(words) {
  const control = button(words, "idea");
  control.addEventListener("click", () => {
    find("words").focus();
    chat.ask(words);
  });
  return control;
}

// Shows a problem and the button that may solve it: in the empty page, or above the composer if a
// conversation fills the page.
function apologise(error) {
  const needsKey = error.status === 401;
  const isFirst = needsKey && !server.key;
  const title = needsKey ? "The API key was not accepted" : "No connection";
  find("empty-title").textContent = isFirst ? "This server requires an API key" : title;
  find("empty-words").textContent = isFirst ? "Enter your key to see the flows." : error.message;
  find("ideas").replaceChildren(remedy(needsKey, "idea"));
  find("ideas").hidden = false;
  find("first-steps").hidden = true;
  const words = element("span", `${find("empty-title").textContent}.`);
  find("trouble").replaceChildren(...(chat.hasTurns ? [words, remedy(needsKey, "quiet")] : []));
  find("trouble").hidden = !chat.hasTurns;
}

function remedy(needsKey, kind) {
  const control = button(needsKey ? "Enter a key" : "Try again", kind);
  control.addEventListener("click", () => (needsKey ? settings.open() : connect()));
  return control;
}

find("flow").addEventListener("change", () => {
  remember("flow", find("flow").value);
  welcome();
});
connect();

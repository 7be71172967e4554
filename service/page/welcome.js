// The Ask view before the first question: an overview of memory with three questions to try, or how to fill it.

import { noteCaller, whyNoWrites } from "./access.js";
import { byId, count, el, fill } from "./dom.js";
import { getJson } from "./http.js";
import { problemBox } from "./problems.js";

const INGEST = "recall-loop ingest conversations.json --store ./my-memory";

/** Show it. `words` are the service's words for kinds; `openMemory` opens the Memory view. */
export async function welcome(words, openMemory) {
  try {
    const held = await getJson("api/memory/overview");
    noteCaller(held.caller);
    fill("welcome", held.records ? full(held, words, await questions()) : empty(openMemory));
  } catch (error) {
    fill("welcome", problemBox(error)); // shows a missing or wrong key before the first question
  }
}

function full(held, words, asked) {
  const kinds = Object.entries(held.kinds).map(([kind, number]) => count(number, words.content[kind] ?? kind));
  const times = held.first ? `, from ${held.first.slice(0, 10)} to ${held.last.slice(0, 10)}` : "";
  const users = Object.keys(held.users).length;
  return el("div", { class: "card" },
    el("h2", {}, "In memory"),
    el("p", {}, `${kinds.join(", ")}${users ? `, of ${count(users, "user")}` : ""}${times}.`),
    asked.length ? [el("p", {}, "Try:"), el("ul", { class: "plain-list" }, asked.map((question) => el("li", {}, el("button", { type: "button", onclick: () => ask(question) }, question))))] : null,
  );
}

function ask(question) {
  byId("question").value = question;
  byId("ask").requestSubmit();
}

/** Three questions about the newest records, by subject, title, author or a keyword. */
async function questions() {
  const { records } = await getJson("api/memory/records?order=newest&limit=50");
  const found = new Set();
  for (const record of records) {
    if (found.size === 3) break;
    if (record.subject) found.add(`What is known about ${record.subject}?`);
    else if (record.label) found.add(`What does “${record.label.slice(0, 80)}” say?`);
    else if (record.author && record.role !== "assistant") found.add(`What did ${record.author} say last?`);
    else if (record.kind === "message") found.add(`What was said about ${keyword(record.text)}?`);
  }
  return [...found];
}

const keyword = (text) => (text.match(/[\p{L}\p{N}-]{4,}/gu) ?? [text.slice(0, 30)]).reduce((one, other) => (other.length > one.length ? other : one));

function empty(openMemory) {
  if (whyNoWrites()) return el("div", { class: "card" }, el("h2", {}, "Memory is empty"), el("p", {}, whyNoWrites()));
  return el("div", { class: "card" },
    el("h2", {}, "Memory is empty"),
    el("p", {}, "Fill it in one of these ways:"),
    el("ul", {},
      el("li", {}, el("button", { type: "button", onclick: openMemory }, "Add a record"), " here, in the Memory view"),
      el("li", {}, "import your data (exports of ChatGPT, Claude, Slack, WhatsApp and Telegram, mail, messages, tables, notes) while the service is stopped: ", el("code", {}, INGEST)),
      el("li", {}, "let a program add: ", el("code", {}, "POST api/memory/add"), ", the Python class ", el("code", {}, "Memory"), ", or an assistant over MCP"),
    ),
  );
}

// The Memory view: records, newest first or by a search, filtered by kind, user, agent, speech act and time; and the form that adds one.

import { noteCaller } from "./access.js";
import { byId, count, el, fill, minute } from "./dom.js";
import { getJson, postJson } from "./http.js";
import { problemBox } from "./problems.js";
import { openRecord } from "./record.js";

const PAGE = 50;
const ACTS = ["statement", "question", "request", "acknowledgement", "non_answer"];
let words = null;
let next = null;
let newest = 0;

/** Wire the view. `shared` are the service's words for kinds. */
export function start(shared) {
  words = shared;
  for (const [kind, word] of Object.entries(words.content)) byId("browse-kind").append(el("option", { value: kind }, word));
  for (const act of ACTS) byId("browse-act").append(el("option", { value: act }, act.replace("_", "-")));
  byId("browse").addEventListener("submit", (event) => {
    event.preventDefault();
    list();
  });
  byId("browse").addEventListener("change", (event) => event.target.name !== "query" && list());
  byId("more").addEventListener("click", () => list(next));
  byId("add").addEventListener("submit", add);
}

/** Show the newest, as when the view is opened. */
export async function show() {
  await list();
  try {
    const held = await getJson("api/memory/overview");
    noteCaller(held.caller);
    fill("users", Object.keys(held.users).map((value) => el("option", { value })));
    fill("agents", Object.keys(held.agents).map((value) => el("option", { value })));
  } catch {
    // the list shows the error
  }
}

/** Show no record, and ignore one that is still loading. */
export function clear() {
  newest += 1;
  noteCaller(null);
  for (const part of ["users", "agents", "records", "record-shown", "browse-problem", "add-problem"]) fill(part);
  byId("browse-list").removeAttribute("aria-busy");
  byId("more").hidden = true;
  byId("browse-said").textContent = "";
}

function asked() {
  const form = new FormData(byId("browse"));
  const given = (name) => form.get(name)?.trim() || null;
  const day = (name, add) => {
    if (!given(name)) return null;
    const moment = new Date(`${given(name)}T00:00:00Z`);
    moment.setUTCDate(moment.getUTCDate() + add);
    return moment.toISOString();
  };
  return {
    query: given("query"), kind: given("kind"), user_id: given("user_id"), agent_id: given("agent_id"),
    speech_acts: given("act"), start_time: day("from", 0), end_time: day("to", 1),
  };
}

async function list(cursor = null) {
  const turn = (newest += 1);
  const chosen = asked();
  byId("browse-list").setAttribute("aria-busy", "true");
  try {
    const page = chosen.query ? await search(chosen) : await getJson(`api/memory/records?${pageParams(chosen, cursor)}`);
    if (turn !== newest) return;
    fill("browse-problem");
    if (!cursor) fill("records");
    const first = byId("records").childElementCount;
    byId("records").append(...page.records.map(row));
    next = page.next_cursor ?? null;
    byId("more").hidden = !next;
    const shown = byId("records").childElementCount;
    byId("browse-said").textContent = shown ? told(shown, chosen) : "No record matches these filters.";
    if (cursor) byId("records").children[first]?.querySelector("button")?.focus();
  } catch (error) {
    if (turn === newest) fill("browse-problem", problemBox(error));
  } finally {
    if (turn === newest) byId("browse-list").removeAttribute("aria-busy");
  }
}

const told = (shown, chosen) => `${count(shown, "record")} shown, ${chosen.query ? "best first" : "newest first"}${next ? "; there are more" : ""}`;

function pageParams(chosen, cursor) {
  const params = new URLSearchParams({ order: "newest", limit: String(PAGE), include_superseded: "true" });
  if (chosen.kind) params.set("content_types", chosen.kind);
  for (const name of ["user_id", "agent_id", "speech_acts", "start_time", "end_time"]) if (chosen[name]) params.set(name, chosen[name]);
  if (cursor) params.set("cursor", cursor);
  return params;
}

async function search(chosen) {
  const body = { query: chosen.query, limit: PAGE, fuzzy: 1, filters: { include_superseded: true } };
  body.content_types = chosen.kind ? [chosen.kind] : Object.keys(words.content);
  for (const name of ["user_id", "agent_id"]) if (chosen[name]) body[name] = chosen[name];
  for (const name of ["start_time", "end_time"]) if (chosen[name]) body.filters[name] = chosen[name];
  if (chosen.speech_acts) body.filters.speech_acts = [chosen.speech_acts];
  const found = await postJson("api/memory/search", body);
  return { records: found.hits.map((hit) => ({ ...hit, kind: hit.content_type, text: hit.content })) };
}

function row(record) {
  const facts = [minute(record.created_at), record.author ?? record.role, record.user_id && `user ${record.user_id}`, record.agent_id && `agent ${record.agent_id}`];
  return el("li", { class: "card" },
    el("button", { type: "button", class: "plain", onclick: () => openRecord(record.id, words, () => list()) },
      el("span", { class: "tag" }, words.content[record.kind] ?? record.kind),
      record.superseded_by ? el("span", { class: "tag" }, "superseded") : null,
      record.label ? el("strong", {}, `${record.label} `) : null,
      record.text.length > 300 ? `${record.text.slice(0, 300)}…` : record.text,
    ),
    el("p", { class: "soft" }, facts.filter(Boolean).join(" · ") || "no time, no speaker"),
  );
}

async function add(event) {
  event.preventDefault();
  const form = new FormData(event.target);
  const body = { content: form.get("text") };
  for (const name of ["user_id", "agent_id"]) if (form.get(name)) body[name] = form.get(name);
  if (form.get("label")) body.content = { kind: "archival", text: form.get("text"), label: form.get("label") };
  try {
    const added = await postJson("api/memory/add", body);
    fill("add-problem");
    event.target.reset();
    byId("browse").reset();
    await show();
    byId("browse-said").textContent = `Saved as ${added.ids.join(", ")}`;
  } catch (error) {
    fill("add-problem", problemBox(error));
  }
}

// Past runs: found with or without contrasts, and one run in full. How a run ended and its learning value are separate.

import { bars, byId, count, el, fill, fixed, minute, named, tip } from "./dom.js";
import { getJson, postJson } from "./http.js";
import { problemBox } from "./problems.js";

const COLUMNS = [["successes", "Successes"], ["moderate", "Moderate"], ["failures", "Failures"]];

export function start() {
  byId("search-runs").addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const part of ["runs-problem", "runs-found", "run-shown"]) fill(part);
    try {
      show(await postJson("api/trajectories/search", asked(new FormData(event.target))));
    } catch (error) {
      byId("runs-message").textContent = "";
      fill("runs-problem", problemBox(error));
    }
  });
}

/** Show no run. */
export function clear() {
  for (const part of ["runs-problem", "runs-found", "run-shown"]) fill(part);
  byId("runs-message").textContent = "";
}

function asked(form) {
  const body = { query: form.get("query"), include_contrasts: form.has("include_contrasts") };
  for (const name of ["success_threshold", "failure_threshold"]) if (form.get(name)) body[name] = Number(form.get(name));
  if (form.get("agent_id")) body.agent_id = form.get("agent_id");
  return body;
}

function show(found) {
  byId("runs-message").textContent = found.message;
  const parts = [];
  if (found.degraded) parts.push(el("p", { class: "warning" }, `Degraded: ${found.degraded_reason}`));
  if (found.include_contrasts) {
    parts.push(el("div", { class: "columns" }, COLUMNS.map(([name, head]) => group(head, found[name]))));
    if (found.relevant_experiences.length) parts.push(group("Relevant experiences of any learning value", found.relevant_experiences));
    if (found.unscored.length) parts.push(group("Not scored", found.unscored));
  } else parts.push(group("Runs", found.trajectories));
  fill("runs-found", parts);
}

function group(head, items) {
  const body = items.length ? el("ol", {}, items.map(card)) : el("p", { class: "soft" }, "none");
  return el("section", { "aria-label": head }, el("h2", {}, `${head} (${items.length})`), body);
}

const labelled = (label) => el("div", {}, `${label.label}: `, tip(label.value, label.tooltip));

function card(item) {
  const facts = [count(item.details.step_count, "step"), item.details.tools_used.join(", "), item.details.task_category, item.details.complexity_level, minute(item.created_at)];
  return el("li", { class: "card" },
    el("h3", {}, item.summary),
    el("div", { class: "labels" }, labelled(item.execution), labelled(item.learning_value)),
    item.errors.map((text) => el("p", {}, text)),
    el("p", {}, item.note),
    el("p", { class: "soft" }, [`similarity ${fixed(item.similarity)}`, ...facts].filter(Boolean).join(" · ")),
    item.tags.map((tag) => el("span", { class: "tag" }, tag)),
    el("button", { type: "button", onclick: () => open(item) }, "Open the run", el("span", { class: "hidden" }, ` ${item.id}`)),
  );
}

async function open(item) {
  try {
    const { trajectory } = await getJson(`api/trajectories/${encodeURIComponent(item.id)}`);
    fill("run-shown", full(item, trajectory.attributes));
  } catch (error) {
    fill("run-shown", problemBox(error));
  }
  byId("run-shown").focus();
}

function full(item, run) {
  const scores = run.scoring?.sub_scores;
  return el("article", { class: "card", "aria-label": `Run ${item.id}` },
    el("h2", {}, run.task || item.summary),
    el("div", { class: "labels" }, labelled(item.execution), labelled(item.learning_value)),
    run.execution?.reasoning ? el("p", { class: "soft" }, `Execution: ${run.execution.reasoning}`) : null,
    scores ? [el("h3", {}, "Components of the learning value"), bars(scores)] : null,
    run.scoring?.reasoning ? el("p", { class: "soft" }, `${run.scoring.reasoning} (scored by ${run.scoring.scorer})`) : null,
    el("h3", {}, "Turns"),
    el("ol", {}, (run.turns ?? []).map((turn) => el("li", {}, (turn.messages ?? []).map(message)))),
  );
}

function message(said) {
  const calls = (said.tool_calls ?? []).map((call) => el("pre", {}, `${call.name}(${typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments ?? {})})`));
  return el("div", {}, el("p", {}, el("span", { class: "tag" }, named(said.role)), said.content ?? ""), calls,
    said.error ? el("p", { class: "problem" }, said.error) : null);
}

// The view of a retrieval: its iterations as they arrive, why it stopped, and its result.

import { progress } from "./chart.js";
import { bars, byId, count, el, fill, fixed, minute, named } from "./dom.js";
import { factCard } from "./facts.js";
import { postEvents } from "./http.js";
import { problemBox } from "./problems.js";

/** Wire the form. `words` are the service's words for reasons, labels and kinds. */
export function start(words) {
  for (const [kind, word] of Object.entries(words.content)) {
    const box = el("input", { type: "checkbox", name: "content_types", value: kind, checked: kind !== "trajectory" });
    byId("types").append(el("label", {}, box, word));
  }
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    new Run(words).follow(asked(new FormData(event.target)));
  });
}

function narrowing(narrowed) {
  const { start_time: start, end_time: end, ...others } = narrowed?.filters ?? {};
  const moment = (iso) => iso.slice(0, ["", "T00:00"].includes(iso.slice(10, 16)) ? 10 : 16);
  const told = [start && `from ${moment(start)}`, end && `before ${moment(end)}`,
    ...Object.entries(others).map(([name, value]) => `${name} ${value}`), narrowed?.tool].filter(Boolean);
  return told.length ? ` (${told.join(", ")})` : "";
}

function asked(form) {
  const body = { messages: [{ role: "user", content: form.get("question") }], debug: true };
  const types = form.getAll("content_types");
  if (types.length) body.content_types = types;
  for (const name of ["agent_id", "user_id", "conversation_id"]) if (form.get(name)) body[name] = form.get(name);
  if (form.get("scope") === "constellation") body.scope = "constellation";
  for (const name of ["max_facts", "max_iterations"]) if (form.get(name)) body[name] = Number(form.get(name));
  if (form.get("write_answer")) body.write_answer = true;
  return body;
}

const PARTS = ["chart", "iterations", "stop", "answer", "confidence", "facts", "ask-problem"];
let running = null;

/** End a run and show nothing of it. */
export function clear() {
  running?.abort();
  running = null;
  for (const part of PARTS) fill(part);
  byId("run").hidden = byId("ask-stop").hidden = true;
  byId("said").textContent = "";
}

class Run {
  constructor(words) {
    running?.abort();
    running = this.aborter = new AbortController();
    this.words = words;
    this.points = [];
    this.ended = false;
    for (const part of PARTS) fill(part);
    fill("welcome");
    byId("outcome").hidden = true;
    byId("run").hidden = false;
  }

  async follow(body) {
    const stop = byId("ask-stop");
    stop.hidden = false;
    stop.onclick = () => this.aborter.abort();
    byId("run").setAttribute("aria-busy", "true");
    this.say("Searching");
    try {
      for await (const [name, event] of postEvents("api/memory/retrieve/stream", body, this.aborter.signal)) {
        this.tell(name, event);
      }
      if (!this.ended) throw new Error("the stream ended before the result");
    } catch (error) {
      if (running !== this.aborter) return;
      this.say(error.name === "AbortError" ? "Stopped" : "The request failed");
      fill("ask-problem", error.name === "AbortError" ? el("p", { class: "warning" }, "Stopped by you.") : problemBox(error));
    } finally {
      if (running === this.aborter) stop.hidden = true;
      byId("run").removeAttribute("aria-busy");
    }
  }

  tell(name, event) {
    if (running !== this.aborter) return;
    const writer = {
      queries_planned: this.planned, call_done: this.called, novelty: this.novelty, judged: this.judged,
      answer_token: this.token, answer_reset: this.reset, stopped: this.stopped, result: this.result, problem: this.failed,
    }[name];
    writer?.call(this, event);
  }

  say(text) {
    byId("said").textContent = text;
  }

  planned(event) {
    this.queries = el("ul", { class: "queries" }, event.queries.map((query) =>
      el("li", { "data-query": query.text }, el("span", {}, el("span", { class: "tag" }, named(query.source ?? "")), query.text, el("span", { class: "soft" }, narrowing(query.narrowed)))),
    ), (event.repeats ?? []).map((text) =>
      el("li", {}, el("span", {}, el("span", { class: "tag" }, "repeat"), el("s", {}, text)), el("span", { class: "yield" }, "not asked again")),
    ));
    if (!event.queries.length) this.queries.append(el("li", { class: "soft" }, "no new query left to ask"));
    this.card = el("li", { class: "card" },
      el("h3", {}, `Iteration ${event.iteration}: ${named(event.strategy)}`, event.origin === "refine" ? " (refined)" : ""),
      event.missing?.length ? el("p", { class: "soft" }, `Looking for: ${event.missing.join(", ")}`) : null,
      this.queries,
    );
    byId("iterations").append(this.card);
  }

  called(event) {
    const text = event.error
      ? `The search failed after ${count(event.attempts, "attempt")}: ${event.error}`
      : `${count(event.result_count, "result")} in ${Math.round(event.duration_ms)} ms`;
    this.card?.append(el("p", { class: event.error ? "problem" : "soft" }, text));
  }

  novelty(event) {
    for (const brought of event.yields ?? []) {
      const row = [...(this.queries?.children ?? [])].find((item) => item.dataset.query === brought.query);
      const text = brought.error ? "failed" : `${brought.new_facts} new of ${brought.results}`;
      row?.append(el("span", { class: `yield${brought.new_facts ? " gained" : ""}` }, text));
    }
    const gained = `${count(event.new_facts, "new fact")}, coverage ${fixed(event.coverage)} (${event.coverage_gain >= 0 ? "+" : ""}${fixed(event.coverage_gain)})`;
    this.card?.append(el("p", {}, gained, event.uncovered.length ? `; still open: ${event.uncovered.join(", ")}` : ""));
    if (!this.points.some((point) => point.iteration === event.iteration)) this.points.push(event);
    fill("chart", progress(this.points));
    this.say(`Iteration ${event.iteration}: ${gained}`);
  }

  judged(event) {
    const said = `The language model: ${event.stop ? "enough" : "not enough"}, ${event.confidence} confidence. ${event.reason ?? ""}`;
    this.card?.append(el("p", { class: "soft" }, said));
  }

  token(event) {
    byId("outcome").hidden = false;
    if (!byId("answer").firstChild) fill("answer", el("h2", {}, "Answer"), el("p", { id: "answer-text" }));
    byId("answer-text").append(event.text);
  }

  reset() {
    fill("answer");
  }

  stopped(event) {
    const detail = Object.entries(event.detail ?? {}).map(([name, value]) => `${named(name)} ${typeof value === "number" && !Number.isInteger(value) ? fixed(value) : value}`);
    fill("stop", el("div", { class: "stop" },
      el("p", {}, `Stopped after ${count(event.iteration, "iteration")}: ${this.words.stop[event.reason] ?? event.reason}.`),
      el("details", {}, el("summary", {}, `${event.reason}: the figures`), el("p", { class: "soft" }, detail.join(" · "))),
    ));
  }

  failed(event) {
    this.ended = true;
    fill("ask-problem", problemBox(event));
    this.say("The request failed");
  }

  result(result) {
    this.ended = true;
    byId("outcome").hidden = false;
    if (result.answer) fill("answer", el("h2", {}, "Answer"), el("p", { id: "answer-text" }, result.answer));
    const sure = result.confidence;
    fill("confidence",
      result.warnings.map((warning) => el("p", { class: "warning" }, warning)),
      el("p", { class: sure.label }, el("strong", {}, `${fixed(sure.score)}, ${this.words.confidence[sure.label] ?? sure.label}`)),
      el("p", { class: "soft" }, `The score is the fitted probability that all of the evidence is among the first ten facts (calibration ${sure.calibration_id}).`),
      typeof sure.answerable === "number" ? el("p", { id: "answerable" }, `Probability that memory holds an answer at all: ${fixed(sure.answerable)}.`) : "",
      el("details", { open: true }, el("summary", {}, "Components"), bars(sure.components)),
    );
    byId("facts-head").textContent = result.facts.length ? `${count(result.facts.length, "fact")}, best first`
      : result.stop.reason === "tool_failure" ? "The search failed" : "Nothing found";
    const facets = result.metadata.trace?.facets ?? [];
    fill("facts", result.facts.map((fact, at) => factCard(fact, at + 1, facets, this.words)));
    this.say(`${count(result.facts.length, "fact")}, ${sure.label} confidence. Reference time ${minute(result.reference_time)}`);
  }
}

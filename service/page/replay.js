// A replay report, read from a file in this page: policies side by side, and recall against iterations.

import { shares } from "./chart.js";
import { byId, el, fill, fixed, named, table } from "./dom.js";
import { problemBox } from "./problems.js";

export function start() {
  byId("report").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    fill("report-problem");
    fill("report-shown");
    if (!file) return;
    try {
      fill("report-shown", shown(checked(JSON.parse(await file.text()))));
    } catch (error) {
      fill("report-problem", problemBox(new Error(`${file.name} is no replay report: ${error.message}`)));
    }
  });
}

function checked(report) {
  if (!Array.isArray(report?.policies) || !report.policies.length) throw new Error("it has no policies");
  if (!Array.isArray(report.runs)) throw new Error("it has no runs");
  return report;
}

const number = (value) => (typeof value === "number" ? (Number.isInteger(value) ? value : Number(value.toFixed(3))) : "–");

function shown(report) {
  const policies = report.policies;
  const measures = Object.keys(policies[0]).filter((name) => policies.every((policy) => typeof policy[name] === "number"));
  return [
    el("h2", {}, `${report.asked?.source ?? "Replay"}: ${policies.map((policy) => policy.name).join(" and ")}`),
    table("Policies side by side", ["measure", ...policies.map((policy) => policy.name)],
      measures.map((name) => [named(name), ...policies.map((policy) => number(policy[name]))])),
    Object.entries(report.differences ?? {}).map(([name, parts]) => [
      el("h2", {}, `${name} against ${report.baseline}`),
      table(`Differences of ${name}, with 95 % intervals`, ["measure", "difference", "from", "to"],
        parts.map((part) => [named(part.measure), number(part.difference), number(part.low), number(part.high)])),
    ]),
    shares("Share of runs that had stopped by iteration", policies.map((policy) => ({ name: policy.name, values: stopped(report.runs, policy.name) }))),
    el("h2", {}, "Stop reasons"),
    table("Stop reasons", ["policy", "reason", "runs"], policies.flatMap((policy) => reasons(report.runs, policy.name))),
    el("p", { class: "soft" }, `Confidence and latency per run are in the file; mean latency ${policies.map((policy) => `${policy.name} ${fixed(mean(report.runs, policy.name), 0)} ms`).join(", ")}.`),
  ];
}

const of = (runs, name) => runs.filter((run) => run.policy === name);
const mean = (runs, name) => of(runs, name).reduce((sum, run) => sum + run.latency_ms, 0) / Math.max(1, of(runs, name).length);

function stopped(runs, name) {
  const own = of(runs, name);
  const most = Math.max(1, ...runs.map((run) => run.iterations));
  return Array.from({ length: most }, (_, at) => own.filter((run) => run.iterations <= at + 1).length / Math.max(1, own.length));
}

function reasons(runs, name) {
  const counts = new Map();
  for (const run of of(runs, name)) counts.set(run.stop_reason, (counts.get(run.stop_reason) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([reason, runsOf]) => [name, named(reason), runsOf]);
}

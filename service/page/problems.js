// Problems in the service's own words, with the fields they are about.

import { el } from "./dom.js";
import { Problem } from "./http.js";

/** A problem document, a Problem, or any other error, as a box. */
export function problemBox(given) {
  const problem = given instanceof Error ? given : new Problem(given);
  return el("div", { class: "problem", role: "alert" },
    el("strong", {}, problem.title ?? "Something went wrong"),
    el("p", {}, problem.message),
    problem.field && problem.allowed === null ? el("p", { class: "soft" }, `${problem.field} is ${problem.value}`) : null,
    problem.status === 401 ? el("p", {}, "Enter the key of your tenant under “API key”.") : null,
    problem.requestId ? el("p", { class: "soft" }, `Request ${problem.requestId}`) : null,
  );
}

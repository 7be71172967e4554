// One ranked fact: where it comes from, its text with matches marked, and the components of its score.

import { bars, count, el, fixed, minute } from "./dom.js";

/** A fact as a card. `facets` are the parts of the question, whose words are marked. */
export function factCard(fact, rank, facets, words) {
  const wanted = stemsOf(facets);
  const others = fact.evidence.filter((evidence) => evidence.source_id !== fact.id);
  return el("li", { class: "card", id: `fact-${rank}` },
    el("h3", {}, `${rank}. `, fact.label ? `[${fact.label}] ` : "", el("span", { class: "tag" }, words.content[fact.content_type] ?? fact.content_type)),
    el("p", {}, marked(fact.text, wanted)),
    el("p", { class: "soft" }, [fact.id, fact.author ?? fact.agent_name, minute(fact.created_at), `similarity ${fixed(fact.similarity)}`].filter(Boolean).join(" · ")),
    bars({ score: fact.score }),
    fact.debug?.components ? el("details", { open: rank <= 3 }, el("summary", {}, "Score components"), bars(fact.debug.components)) : null,
    el("details", { class: "evidence" },
      el("summary", {}, others.length ? `${count(others.length, "source")}, and how it was found` : "How it was found"),
      others.map((evidence) => el("blockquote", {},
        el("p", {}, marked(evidence.snippet ?? "", wanted)),
        el("footer", { class: "soft" }, [evidence.source_id, evidence.author, minute(evidence.created_at)].filter(Boolean).join(" · ")),
      )),
      (fact.debug?.matches ?? []).map((match) => el("p", { class: "soft" },
        `Iteration ${match.iteration}, ${match.source}: “${match.query}” gave ${fixed(match.score)} (similarity ${fixed(match.similarity)})`)),
    ),
  );
}

function stemsOf(facets) {
  const stems = facets.flatMap((facet) => [...facet.terms, ...Object.values(facet.alternatives ?? {}).flat()]);
  // The stemmer turns a final y into i: without it the stem is a beginning of the word.
  return [...new Set(stems.map((stem) => stem.toLowerCase().replace(/(?<=.{3})i$/u, "")))].filter((stem) => stem.length > 1);
}

/** Text with the words that begin with a wanted stem marked; short stems must be the whole word. */
export function marked(text, stems) {
  return text.split(/([\p{L}\p{N}]+)/u).map((part, at) => {
    if (at % 2 === 0) return part;
    const word = part.normalize("NFKC").toLowerCase();
    const hit = stems.some((stem) => word === stem || (stem.length > 3 && word.startsWith(stem) && word.length - stem.length < 5));
    return hit ? el("mark", {}, part) : part;
  });
}

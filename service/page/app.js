// The page: tabs, theme, key, and the four views.

import * as ask from "./ask.js";
import { byId, fill } from "./dom.js";
import { getJson, saveKey, savedKey } from "./http.js";
import * as memory from "./memory.js";
import { problemBox } from "./problems.js";
import * as replay from "./replay.js";
import * as runs from "./runs.js";
import { welcome } from "./welcome.js";

const tabs = [...document.querySelectorAll('[role="tab"]')];

function choose(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (tab.id === "tab-memory") memory.show();
}

for (const [at, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

const THEME = "recall-loop-theme";
const theme = byId("theme");
function paint(name) {
  document.documentElement.dataset.theme = name;
  theme.value = name;
}
paint(localStorage.getItem(THEME) ?? "");
theme.addEventListener("change", () => {
  localStorage.setItem(THEME, theme.value);
  paint(theme.value);
});

byId("key").value = savedKey();
byId("key").addEventListener("input", (event) => saveKey(event.target.value.trim()));
byId("key").addEventListener("change", () => {
  for (const view of [ask, memory, runs]) view.clear(); // it is another tenant's
  if (greet && !byId("view-memory").hidden) memory.show();
  greet?.();
});

let greet = null;

try {
  const words = await getJson("page/words.json");
  ask.start(words);
  memory.start(words);
  runs.start();
  replay.start();
  greet = () => welcome(words, () => {
    choose(byId("tab-memory"));
    byId("add-one").open = true;
    byId("add-text").focus();
  });
  await greet();
} catch (error) {
  fill("ask-problem", problemBox(error));
}

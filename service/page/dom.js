// Elements from data. Text from outside only ever becomes text: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Attributes that are null, undefined or false are left out; children are nodes or text. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Replace what an element holds. */
export function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat(3).filter(Boolean));
}

/** "1 fact", "2 facts". */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

export const fixed = (number, digits = 2) => (typeof number === "number" ? number.toFixed(digits) : "–");

export const named = (key) => key.replaceAll("_", " ");

/** Minutes of a timestamp, in UTC as the service counts. */
export const minute = (stamp) => (stamp ? stamp.slice(0, 16).replace("T", " ") : null);

/** Parts of [0,1] as a list of name, bar and number. */
export function bars(parts) {
  const rows = Object.entries(parts).map(([name, value]) => [
    el("dt", {}, named(name)),
    el("dd", { "aria-hidden": "true" }, bar(value)),
    el("dd", {}, fixed(value)),
  ]);
  return el("dl", { class: "bars-list" }, rows);
}

function bar(value) {
  const inner = el("i");
  inner.style.width = `${100 * Math.min(Math.max(value, 0), 1)}%`;
  return el("div", { class: "bar" }, inner);
}

/** A table of text cells; numbers stand to the right. */
export function table(caption, heads, rows) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))),
    ),
  );
}

function cell(value, at) {
  if (at === 0) return el("th", { scope: "row" }, String(value));
  return el("td", { class: typeof value === "number" ? "number" : null }, String(value));
}

/** A value with a tooltip that explains it: shown on hover and focus, closed by Escape. */
let tips = 0;
export function tip(text, meaning) {
  const id = `tip-${(tips += 1)}`;
  const box = el(
    "span",
    { class: "tip" },
    el("button", { type: "button", "aria-describedby": id }, text),
    el("span", { role: "tooltip", id }, meaning),
  );
  box.addEventListener("keydown", (event) => event.key === "Escape" && box.classList.add("shut"));
  for (const opens of ["focusin", "mouseenter"]) box.addEventListener(opens, () => box.classList.remove("shut"));
  return box;
}

// New facts per iteration as bars, coverage as a curve; and plain line charts. The figures stand beside them as a table.

import { el, svg, table } from "./dom.js";

const WIDTH = 460;
const HEIGHT = 150;
const LEFT = 34;
const BOTTOM = 22;
const TOP = 12;

/** Chart of a run so far. `points` are {iteration, new_facts, coverage}. */
export function progress(points) {
  if (!points.length) return [];
  const most = Math.max(1, ...points.map((point) => point.new_facts));
  const step = (WIDTH - 2 * LEFT) / points.length;
  const x = (at) => LEFT + step * (at + 0.5);
  const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
  const width = Math.min(36, step * 0.6);
  const bars = points.map((point, at) => [
    svg("rect", {
      class: "bars", x: x(at) - width / 2, y: y(point.new_facts / most), width,
      height: HEIGHT - BOTTOM - y(point.new_facts / most),
    }),
    svg("text", { x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, String(point.iteration)),
  ]);
  const line = points.map((point, at) => `${x(at)},${y(point.coverage)}`).join(" ");
  const dots = points.map((point, at) => svg("circle", { class: "dot", cx: x(at), cy: y(point.coverage), r: 3.5 }));
  return [
    el("figcaption", { class: "soft" }, "New facts per iteration (bars, left) and coverage (curve, right)"),
    frame(
      [
        svg("text", { x: LEFT - 6, y: y(1) + 4, "text-anchor": "end" }, String(most)),
        svg("text", { x: LEFT - 6, y: y(0), "text-anchor": "end" }, "0"),
        svg("text", { x: WIDTH - LEFT + 6, y: y(1) + 4 }, "1.0"),
        svg("text", { x: WIDTH - LEFT + 6, y: y(0) }, "0"),
        bars, svg("polyline", { class: "curve", points: line }), dots,
      ],
    ),
    el("details", {}, el("summary", {}, "The figures"), table(
      "New facts and coverage per iteration", ["iteration", "new facts", "coverage"],
      points.map((point) => [point.iteration, point.new_facts, point.coverage.toFixed(2)]),
    )),
  ];
}

/** Line chart of shares in [0,1]: `curves` are {name, values}; dashes tell them apart, and so does the legend. */
export function shares(caption, curves) {
  const longest = Math.max(...curves.map((curve) => curve.values.length));
  const x = (at) => LEFT + (longest > 1 ? (at * (WIDTH - 2 * LEFT)) / (longest - 1) : 0);
  const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
  const dashes = ["none", "7 4", "2 4", "10 3 2 3"];
  const lines = curves.map((curve, at) =>
    svg("polyline", {
      class: "curve", "stroke-dasharray": dashes[at % dashes.length],
      points: curve.values.map((value, place) => `${x(place)},${y(value)}`).join(" "),
    }),
  );
  const ticks = Array.from({ length: longest }, (_, at) =>
    svg("text", { x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, String(at + 1)),
  );
  const styles = ["solid", "dashed", "dotted", "dash and dot"];
  const legend = curves.map((curve, at) => `${curve.name} (${styles[at % styles.length]})`).join(", ");
  return el("figure", {}, el("figcaption", { class: "soft" }, `${caption}: ${legend}`), frame([
    svg("text", { x: LEFT - 6, y: y(1) + 4, "text-anchor": "end" }, "1.0"),
    svg("text", { x: LEFT - 6, y: y(0), "text-anchor": "end" }, "0"), lines, ticks,
  ]));
}

function frame(parts) {
  const axis = { class: "axis", y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM };
  return svg(
    "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", "aria-hidden": "true", focusable: "false" },
    svg("line", { ...axis, x1: LEFT, x2: WIDTH - LEFT }), parts,
  );
}

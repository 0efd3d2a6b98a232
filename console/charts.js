// Line charts: a frame with three levels, lines, bands between two lines, marks. Lines differ by dash as well as color.

import { h, svg } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP] = [520, 170, 62, 10, 22, 10];

// The next round number, so that the levels of the frame read well.
export function round(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= value * (1 - 1e-9));
}

// The parts of a line between its gaps: a point whose y is null is one.
export function parts(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] === null) found.push([]);
    else found.at(-1).push(point);
  }
  return found.filter((part) => part.length);
}

// `lines` and `marks` have points [x, y], `bands` [x, low, high]; a y of null is a gap in a line; `from` and `to` are the ends of the x axis with what
// stands there; `unit` says a y. `name` of a line is its class: a (plain) or b (dashed).
export function plot({ caption, unit, from, to, lines = [], bands = [], marks = [] }) {
  const heights = [
    ...lines.flatMap(({ points }) => points.map(([, y]) => y)),
    ...bands.flatMap(({ points }) => points.map(([, , high]) => high)),
    ...marks.map(({ y }) => y),
  ];
  const highest = round(Math.max(...heights, 0) || 1);
  const across = (value) => LEFT + ((value - from.at) / (to.at - from.at || 1)) * (WIDTH - LEFT - RIGHT);
  const up = (value) => TOP + (1 - value / highest) * (HEIGHT - TOP - BOTTOM);
  const joined = (points) => points.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
  const text = (x, y, anchor, words) => svg("text", { x, y, "text-anchor": anchor }, words);

  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": caption });
  for (const level of [0, 0.5, 1].map((share) => share * highest)) {
    picture.append(
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: up(level), y2: up(level) }),
      text(LEFT - 6, up(level) + 4, "end", unit(level)));
  }
  picture.append(
    text(LEFT, HEIGHT - 6, "start", from.says),
    text(WIDTH - RIGHT, HEIGHT - 6, "end", to.says));
  for (const { points } of bands) {
    const back = [...points].reverse();
    const outline = [...points.map(([x, low]) => [x, low]), ...back.map(([x, , high]) => [x, high])];
    picture.append(svg("polygon", { class: "band", points: joined(outline) }));
  }
  for (const { name, points } of lines) {
    for (const part of parts(points)) {
      // A point between two gaps is drawn as a line to itself, which is a dot.
      picture.append(svg("polyline", { class: name, points: joined(part.length > 1 ? part : [...part, ...part]) }));
    }
  }
  for (const { x, y, name, says } of marks) {
    picture.append(svg("circle", { class: name, cx: across(x), cy: up(y), r: 4 }, svg("title", {}, says)));
  }
  return h("figure", {}, h("figcaption", {}, caption), picture);
}

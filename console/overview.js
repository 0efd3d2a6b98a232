// How much, how fast, and where a request spends its time right now.

import { get } from "./api.js";
import { count, h, micros, svg, table } from "./dom.js";

const SECONDS = 120;
const STAGES = [
  ["parse", "parse_mean_us", "read and parsed"],
  ["waiting", "waiting_all_mean_us", "waits for a worker"],
  ["dispatch", "dispatch_mean_us", "handed to the store"],
  ["service", "service_all_mean_us", "the store works"],
  ["reply", "reply_mean_us", "answer written"],
];

export async function overview(main, at) {
  const place = h("div");
  main.append(place);
  at.again(1000, async () => {
    const windows = await get(`/v1/windows?last=${SECONDS}`);
    if (at.isShown()) place.replaceChildren(...view(windows));
  });
}

function view(windows) {
  const last = windows.at(-1);
  if (!last) return [h("p", { class: "faint" }, "The first window is not over yet.")];
  const { all, kinds, gauges } = last;
  const tile = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return [
    h("dl", { class: "tiles" },
      tile("requests per second", count(all.requests_per_s)),
      tile("response, median", all.requests ? micros(all.response.p50_us) : "–"),
      tile("response, 99 %", all.requests ? micros(all.response.p99_us) : "–"),
      tile("found nothing", count(all.null)),
      tile("errors", count(all.errors)),
      Object.entries(gauges).map(([name, value]) => tile(name.replaceAll("_", " "), count(value)))),
    h("h2", {}, "Where a request spends its time"),
    path(all),
    h("h2", {}, `The last ${Math.round(windows.reduce((sum, window) => sum + window.length_s, 0))} seconds`),
    h("div", { class: "charts" },
      chart("requests per second", windows, [["", "a", (window) => window.all.requests_per_s]], count),
      chart("response time: median (dashed) and 99 %", windows, [
        ["99 %", "a", (window) => window.all.response.p99_us],
        ["median", "b", (window) => window.all.response.p50_us],
      ], micros)),
    h("h2", {}, "Kinds of request, last window"),
    table("Kinds of request", [
      ["kind", (kind) => kind.kind],
      ["per second", (kind) => count(kind.requests_per_s), "number"],
      ["nothing found", (kind) => count(kind.null), "number"],
      ["errors", (kind) => count(kind.errors), "number"],
      ["median", (kind) => micros(kind.response.p50_us), "number"],
      ["90 %", (kind) => micros(kind.response.p90_us), "number"],
      ["99 %", (kind) => micros(kind.response.p99_us), "number"],
      ["longest", (kind) => micros(kind.response.max_us), "number"],
    ], kinds),
  ];
}

function path(all) {
  if (!all.requests) return h("p", { class: "faint" }, "No request in the last window.");
  const stations = STAGES.filter(([, field]) => field in all).map(([name, field, about]) => [name, all[field], about]);
  const total = stations.reduce((sum, [, us]) => sum + us, 0) || 1;
  const widest = Math.max(...stations.map(([, us]) => us));
  return h("ol", { class: "path", "aria-label": "Stages of the path, with mean times" },
    stations.map(([name, us, about]) => {
      const share = us / total;
      const station = h("li", { class: us === widest ? "widest" : null, title: about },
        h("span", {}, name), h("b", {}, micros(us)), h("span", { class: "faint" }, `${Math.round(share * 100)} %`));
      station.style.flexGrow = String(Math.max(share, 0.02) * 100);
      return station;
    }));
}

function chart(caption, windows, lines, unit) {
  const [width, height, left, bottom, top] = [520, 160, 62, 20, 10];
  const highest = Math.max(...lines.flatMap(([, , of]) => windows.map(of)), 0) || 1;
  const x = (i) => left + (i * (width - left - 8)) / Math.max(windows.length - 1, 1);
  const y = (value) => top + (1 - value / highest) * (height - top - bottom);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": caption });
  for (const share of [0, 0.5, 1]) {
    const level = y(highest * share);
    picture.append(
      svg("line", { class: "grid", x1: left, x2: width - 8, y1: level, y2: level }),
      svg("text", { x: left - 6, y: level + 4, "text-anchor": "end" }, unit(highest * share)));
  }
  picture.append(
    svg("text", { x: left, y: height - 5 }, `${Math.round(windows.reduce((sum, window) => sum + window.length_s, 0))} s ago`),
    svg("text", { x: width - 8, y: height - 5, "text-anchor": "end" }, "now"));
  for (const [, name, of] of lines) {
    const points = windows.map((window, i) => `${x(i).toFixed(1)},${y(of(window)).toFixed(1)}`).join(" ");
    picture.append(svg("polyline", { class: name, points }));
  }
  return h("figure", {}, h("figcaption", {}, caption), picture);
}

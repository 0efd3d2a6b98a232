// How much, how fast, and where a request spends its time right now.

import { get } from "./api.js";
import { plot } from "./charts.js";
import { count, h, micros, renew, table } from "./dom.js";

// Windows that are shown, and how many are asked for when those before are there already.
const SHOWN = 120;
const NEWEST = 4;

export async function overview(main, at) {
  const place = h("div");
  let windows = [];
  main.append(place);
  at.again(1000, place, async () => {
    windows = later(windows, await get(`/v1/windows?last=${NEWEST}`)) ?? await get(`/v1/windows?last=${SHOWN}`);
    if (at.isShown()) renew(place, view(windows, at.tier));
  });
}

// What is known with what is newer; null when something is missing between them.
function later(known, newest) {
  const last = known.at(-1);
  if (!last || !newest.some((window) => window.start_s === last.start_s)) return null;
  return [...known, ...newest.filter((window) => window.start_s > last.start_s)].slice(-SHOWN);
}

function view(windows, tier) {
  const last = windows.at(-1);
  if (!last) return [h("p", { class: "faint" }, "The first window is not over yet.")];
  const { all, kinds, gauges } = last;
  const tile = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return [
    h("dl", { class: "tiles" },
      tile("requests per second", count(all.requests_per_s)),
      tile("response, median", all.requests ? micros(all.response.p50_us) : "–"),
      tile("response, 99 %", all.requests ? micros(all.response.p99_us) : "–"),
      tile(tier.nothing, count(all.null)),
      tile("errors", count(all.errors)),
      Object.entries(tier.levels).filter(([name]) => name in gauges)
        .map(([name, title]) => tile(title, count(gauges[name])))),
    h("h2", {}, "Where a request spends its time"),
    path(all, tier.stages),
    h("h2", {}, `The last ${seconds(windows)} seconds`),
    h("div", { class: "charts" },
      trace("requests per second", windows, count, { a: (window) => window.all.requests_per_s }),
      trace("response time: 99 % (plain) and median (dashed)", windows, micros, {
        a: ({ all }) => (all.requests ? all.response.p99_us : null),
        b: ({ all }) => (all.requests ? all.response.p50_us : null),
      }),
      trace("errors per second", windows, count, { a: (window) => window.all.errors / window.length_s })),
    h("h2", {}, "Kinds of request, last window"),
    table("Kinds of request", [
      ["kind", (kind) => kind.kind],
      ["per second", (kind) => count(kind.requests_per_s), "number"],
      [tier.nothing, (kind) => count(kind.null), "number"],
      ["errors", (kind) => count(kind.errors), "number"],
      ["median", (kind) => micros(kind.response.p50_us), "number"],
      ["90 %", (kind) => micros(kind.response.p90_us), "number"],
      ["99 %", (kind) => micros(kind.response.p99_us), "number"],
      ["longest", (kind) => micros(kind.response.max_us), "number"],
    ], kinds),
  ];
}

// The means of all stages add up to the mean response; those with a distribution of their own have `_all` in the name.
function path(all, stages) {
  if (!all.requests) return h("p", { class: "faint" }, "No request in the last window.");
  const mean = (stage) => all[`${stage}_mean_us`] ?? all[`${stage}_all_mean_us`] ?? 0;
  const stations = Object.entries(stages).map(([stage, about]) => [stage, mean(stage), about]);
  const total = stations.reduce((sum, [, us]) => sum + us, 0) || 1;
  const widest = Math.max(...stations.map(([, us]) => us));
  return h("ol", { class: "path", "aria-label": "Stages of the path, with mean times" },
    stations.map(([name, us, about]) => {
      const share = us / total;
      const station = h("li", { class: us === widest ? "widest" : null, title: about },
        h("span", {}, name), h("b", {}, micros(us)), h("span", { class: "faint" }, `${Math.round(share * 100)} %`));
      station.style.flexGrow = String(Math.max(share, 0.02) * 100);
      station.style.setProperty("--share", `${share * 100}%`);
      return station;
    }));
}

// Figures of the windows over time; `lines` are functions by the class of their line, and null where there is none.
function trace(caption, windows, unit, lines) {
  return plot({
    caption,
    unit,
    from: { at: 0, says: `${seconds(windows)} s ago` },
    to: { at: Math.max(windows.length - 1, 1), says: "now" },
    lines: Object.entries(lines).map(([name, of]) => ({ name, points: windows.map((window, i) => [i, of(window)]) })),
  });
}

function seconds(windows) {
  return Math.round(windows.reduce((sum, window) => sum + window.length_s, 0));
}

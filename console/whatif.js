// What a model, fitted by the laboratory, answers for more clients or another number of workers. The file is read in the
// browser and stays there.

import { get } from "./api.js";
import { plot } from "./charts.js";
import { count, h, many, micros, renew, table } from "./dom.js";
import { answer, readModel, spoken } from "./model.js";

const KEPT = "posthaste model";

export async function whatif(main, at) {
  const place = h("div"), result = h("div");
  let now = null; // where the tier is at the moment
  let show = () => {}; // once more the answer of the model that is open
  const file = h("input", { type: "file", accept: "application/json,.json", onchange: () => at.run(async () => {
    const text = await file.files[0].text();
    open(readModel(text));
    sessionStorage.setItem(KEPT, text);
  }) });
  const open = (model) => {
    const answered = (one, curve, clients) => renew(result, view(one, curve, clients, now, model.confidence));
    const question = form(model, answered);
    show = question.show;
    renew(place, [h("h2", {}, model.title || "The model"), question.element, result]);
  };
  main.append(
    h("p", {}, "The laboratory fits a model to a run and leaves it in ", h("code", {}, "model.json"), ": ",
      h("code", {}, "posthaste-lab fit DIR"), ". What it predicts is shown here. ",
      h("span", { class: "faint" }, "The file stays in your browser.")),
    h("form", {}, h("label", {}, "model.json", file)),
    place);
  const kept = sessionStorage.getItem(KEPT);
  if (kept) at.run(async () => open(readModel(kept)));
  at.again(2000, result, async () => {
    if (!result.isConnected) return;
    now = present(await get("/v1/windows?last=5"));
    show();
  });
}

// What to ask a model; `answered` gets one of its models, a curve of that, and the number of clients.
function form(model, answered) {
  const choice = (name, options, say) => h("select", { name, onchange: () => chosen() },
    options.map((option, i) => h("option", { value: i }, say(option))));
  const which = choice("model", model.models, spoken);
  const change = h("select", { name: "change", onchange: () => show() });
  const clients = h("input", { name: "clients", type: "number", min: 1, step: 1, required: true, oninput: () => show() });

  // Another combination of levels has its own curves, and its own reach.
  function chosen() {
    const { curves } = model.models[Number(which.value)];
    change.replaceChildren(...curves.map(({ says }, i) => h("option", { value: i }, says)));
    // As far as there is an answer: batches may grow beyond those measured before clients do.
    clients.value ||= curves[0].points.at(-1).clients;
    show();
  }
  function show() {
    const one = model.models[Number(which.value)];
    answered(one, one.curves[Number(change.value)], Number(clients.value));
  }
  chosen();
  const element = h("form", { onsubmit: (event) => event.preventDefault() },
    model.models.length > 1 ? h("label", {}, "Measured with", which) : null,
    h("label", {}, "What if", change),
    h("label", {}, "Clients", clients));
  return { element, show };
}

// The tier in the last windows: who is connected, what they get. Null when nobody asks.
function present(windows) {
  const asking = windows.filter((window) => window.all.requests > 0);
  if (!asking.length) return null;
  const seconds = asking.reduce((sum, window) => sum + window.length_s, 0);
  return {
    clients: asking.at(-1).gauges.connections,
    throughput: asking.reduce((sum, window) => sum + window.all.requests, 0) / seconds,
  };
}

function view(model, curve, clients, now, confidence) {
  return [
    ...prediction(model, curve, clients, confidence),
    h("div", { class: "charts" },
      ...["throughput_per_s", "response_time_s"].map((name) => drawn(model, curve, clients, now, name))),
    h("p", { class: "faint" }, [
      curve === model.curves[0] ? "Filled circles were measured, the line is predicted" : "The line is predicted",
      isBanded(curve) ? ", the band is where the mean of one more trial is to be expected." : ".",
      curve === model.curves[0] ? "" : " Dashed: as measured.",
      now ? ` Right now ${many(now.clients, "client")} ${now.clients === 1 ? "gets" : "get"} ${count(now.throughput)} requests per second.` : "",
    ].join("")),
    ...bottleneck(model),
  ];
}

function prediction(model, curve, clients, confidence) {
  let says;
  try {
    says = answer(model, curve, clients);
  } catch (error) {
    return [h("p", { class: "bad", role: "status" }, `▲ ${error.message}`)];
  }
  const tile = (title, figure, say) => h("div", {}, h("dt", {}, title), h("dd", {}, say(figure.value)),
    h("dd", { class: "interval" }, figure.low === null
      ? "no interval: too few whole repetitions"
      : `${Math.round(confidence * 100)} %: ${say(figure.low)} to ${say(figure.high)}`));
  return [
    h("dl", { class: "tiles wide", role: "status" },
      tile("requests per second", says.throughput_per_s, count),
      tile("response time, mean", says.response_time_s, seconds),
      curve === model.curves[0] ? null : gain(model, says)),
    says.extrapolated ? h("p", {}, "★ More clients than were ever measured: the model is extended.") : null,
  ].filter(Boolean);
}

// What a change is worth, where both curves have an answer.
function gain(model, says) {
  const [first] = model.curves;
  const last = first.points.at(-1).clients;
  if (says.clients > last || says.clients < first.points[0].clients) return null;
  const before = answer(model, first, says.clients).throughput_per_s.value;
  const share = says.throughput_per_s.value / before - 1;
  return h("div", {}, h("dt", {}, "against \"as measured\""),
    h("dd", {}, `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)} %`));
}

function drawn(model, curve, clients, now, name) {
  const isTime = name === "response_time_s";
  const along = (points) => points.map((point) => [point.clients, point[name].value]);
  const ends = [model.curves[0], curve].map(({ points }) => [points[0].clients, points.at(-1).clients]);
  const [from, to] = [Math.min(...ends.map(([first]) => first)), Math.max(...ends.map(([, last]) => last))];
  const marks = curve === model.curves[0]
    ? model.points.map((point) => ({
      x: point.clients, y: point[name], name: "measured", says: `measured with ${many(point.clients, "client")}`,
    }))
    : [];
  // A tier that does something else than what was measured is no point of these curves.
  const highest = Math.max(...curve.points.map((point) => point[name].value));
  if (now && !isTime && now.clients >= from && now.clients <= to && now.throughput <= 2 * highest) {
    marks.push({ x: now.clients, y: now.throughput, name: "now", says: "right now" });
  }
  try {
    marks.push({ x: clients, y: answer(model, curve, clients)[name].value, name: "asked", says: many(clients, "client") });
  } catch {
    // Said above the charts.
  }
  return plot({
    caption: isTime ? "response time, mean" : "requests per second",
    unit: isTime ? seconds : count,
    from: { at: from, says: many(from, "client") },
    to: { at: to, says: many(to, "client") },
    bands: isBanded(curve) ? [{ points: curve.points.map((point) => [point.clients, point[name].low, point[name].high]) }] : [],
    lines: [
      { name: "a", points: along(curve.points) },
      ...(curve === model.curves[0] ? [] : [{ name: "b", points: along(model.curves[0].points) }]),
    ],
    marks,
  });
}

function bottleneck({ bottleneck }) {
  if (!bottleneck) return [];
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  return [
    h("h2", {}, `Bottleneck with ${many(bottleneck.clients, "client")}: ${bottleneck.stage}`),
    table("What twice as fast a stage is worth", [
      ["stage", (effect) => effect.stage],
      ["throughput, were it twice as fast", (effect) => `+${percent(effect.gain_share)}`, "number"],
      ["interval", ({ interval }) => (interval ? `${percent(interval.low)} to ${percent(interval.high)}` : "–"), "number"],
    ], bottleneck.effects),
  ];
}

// Whether its points have intervals: all of them do, or none.
function isBanded({ points }) {
  return points.every((point) => point.throughput_per_s.low !== null);
}

function seconds(s) {
  return micros(s * 1e6);
}

// What `posthaste-lab fit` leaves in model.json, read and asked. The laboratory has computed points of each curve; between
// two of them response time is interpolated over the clients, and throughput follows from it by the interactive law, as
// docs/reference/lab.md says. Where the curve ends the data end: there is no answer beyond.

const FORMAT = "posthaste-lab model";
const VERSION = 2;

// The model in a file's text. Throws an Error that says what is wrong with it.
export function readModel(text) {
  let model;
  try {
    model = JSON.parse(text);
  } catch {
    throw new Error("This is no JSON: choose the model.json that posthaste-lab fit wrote.");
  }
  if (model?.format !== FORMAT) throw new Error("This is no model: choose the model.json that posthaste-lab fit wrote.");
  if (model.version !== VERSION) {
    throw new Error(`This model has version ${model.version}, and the console reads ${VERSION}: fit it again with the posthaste-lab of this release.`);
  }
  const models = (model.models ?? []).filter(({ curves }) => curves?.length && curves[0].points.length);
  if (!models.length) throw new Error("This model holds no predictions.");
  return { ...model, models };
}

// The levels a model is of, as posthaste-lab takes them.
export function spoken({ where }) {
  return Object.entries(where).map(([name, level]) => `${name}=${level}`).join(", ") || "the only one";
}

// What a curve says of so many clients. Throws a RangeError where the data say nothing.
export function answer(model, curve, clients) {
  const { points } = curve;
  const [first, last] = [points[0], points.at(-1)];
  const measured = model.points.map((point) => point.clients);
  if (!Number.isInteger(clients) || clients < first.clients || clients > last.clients) {
    throw new RangeError(
      `${clients === 1 ? "1 client is" : `${clients} clients are`} outside what the data support, ${first.clients} to ${last.clients}: `
      + `${Math.min(...measured)} to ${Math.max(...measured)} were measured.`);
  }
  const right = points.find((point) => point.clients >= clients);
  const left = points.findLast((point) => point.clients <= clients);
  const share = right === left ? 0 : (clients - left.clients) / (right.clients - left.clients);
  const mix = (of) => of(left) + share * (of(right) - of(left));
  const response = mix((point) => point.response_time_s.value);
  return {
    clients,
    response_time_s: estimate(response, "response_time_s", left, right, mix),
    throughput_per_s: estimate(clients / (response + model.think_time_s), "throughput_per_s", left, right, mix),
    extrapolated: clients > Math.max(...measured),
  };
}

// Bounds lie as far from the figure, relative to it, as they do at the points; null where there are none.
function estimate(value, name, left, right, mix) {
  const bound = (end) => {
    if (left[name][end] === null || right[name][end] === null) return null;
    return value * mix((point) => point[name][end] / point[name].value);
  };
  return { value, low: bound("low"), high: bound("high") };
}

import assert from "node:assert/strict";
import { test } from "node:test";

import { answer, readModel, spoken } from "../../../console/model.js";

const figure = (value, spread = 0.1) => ({ value, low: value * (1 - spread), high: value * (1 + spread) });
const point = (clients, response, extrapolated = false) => ({
  clients,
  throughput_per_s: figure(clients / (response + 1)),
  response_time_s: figure(response),
  extrapolated,
});
const CURVE = { says: "as measured", points: [point(1, 0.1), point(10, 0.1), point(20, 0.3), point(40, 0.9, true)] };
const MODEL = { where: { size: 2000 }, think_time_s: 1, points: [{ clients: 1 }, { clients: 20 }], curves: [CURVE] };
const FILE = { format: "posthaste-lab model", version: 2, models: [MODEL] };

test("at a point the answer is the point, between two it follows the interactive law", () => {
  assert.deepEqual(answer(MODEL, CURVE, 20).response_time_s.value, 0.3);
  const between = answer(MODEL, CURVE, 15);
  assert.ok(Math.abs(between.response_time_s.value - 0.2) < 1e-12);
  assert.ok(Math.abs(between.throughput_per_s.value - 15 / 1.2) < 1e-9);
  assert.ok(Math.abs(between.throughput_per_s.low / between.throughput_per_s.value - 0.9) < 1e-9);
  assert.deepEqual([15, 20, 21, 40].map((n) => answer(MODEL, CURVE, n).extrapolated), [false, false, true, true]);
});

test("where the data end there is no answer", () => {
  for (const clients of [0, 41, 2.5, NaN]) {
    assert.throws(() => answer(MODEL, CURVE, clients), { name: "RangeError", message: /1 to 40: 1 to 20 were measured/ });
  }
});

test("one client is spoken of as one", () => {
  const from2 = { ...CURVE, points: CURVE.points.slice(1) };
  assert.throws(() => answer(MODEL, from2, 1), { message: /^1 client is outside what the data support, 10 to 40/ });
});

test("one repetition has no intervals", () => {
  const bare = structuredClone(CURVE);
  for (const each of bare.points) each.response_time_s.low = each.response_time_s.high = null;
  const says = answer(MODEL, bare, 15).response_time_s;
  assert.deepEqual([says.low, says.high], [null, null]);
});

test("what is no model of this version is refused with a reason", () => {
  assert.equal(readModel(JSON.stringify(FILE)).models.length, 1);
  assert.throws(() => readModel("<html>"), /no JSON/);
  assert.throws(() => readModel("null"), /no model/);
  assert.throws(() => readModel('{"format": "something else"}'), /no model/);
  assert.throws(() => readModel(JSON.stringify({ ...FILE, version: 1 })), /has version 1, and the console reads 2/);
  assert.throws(() => readModel(JSON.stringify({ ...FILE, models: [] })), /no predictions/);
});

test("a model is named by its levels", () => {
  assert.equal(spoken(MODEL), "size=2000");
  assert.equal(spoken({ where: {} }), "the only one");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { parts, round } from "../../../console/charts.js";

test("the top of a chart is the next round number", () => {
  const given = [3164, 300, 1, 0.0712, 99, 1001, 5, 7.2e6];
  assert.deepEqual(given.map((value) => Number(round(value).toPrecision(6))), [4000, 300, 1, 0.08, 100, 1200, 5, 8e6]);
});

test("a line has a gap where there is nothing to draw", () => {
  const points = [[0, null], [1, 5], [2, 6], [3, null], [4, null], [5, 7], [6, null]];
  assert.deepEqual(parts(points), [[[1, 5], [2, 6]], [[5, 7]]]);
  assert.deepEqual([parts([]), parts([[0, null]]), parts([[0, 0]])], [[], [], [[[0, 0]]]]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { round } from "../../../console/charts.js";

test("the top of a chart is the next round number", () => {
  const given = [3164, 300, 1, 0.0712, 99, 1001, 5, 7.2e6];
  assert.deepEqual(given.map((value) => Number(round(value).toPrecision(6))), [4000, 300, 1, 0.08, 100, 1200, 5, 8e6]);
});

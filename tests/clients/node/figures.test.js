import assert from "node:assert/strict";
import { test } from "node:test";

import { between, Looks, percentile } from "../../../console/figures.js";

test("what came between two looks is the difference, bucket by bucket", () => {
  assert.deepEqual(between([[10, 5], [20, 1]], [[10, 5], [20, 4], [40, 2]]), [[20, 3], [40, 2]]);
  assert.deepEqual(between([], []), []);
});

test("a percentile is the end of the bucket that reaches it", () => {
  const buckets = [[10, 50], [20, 49], [500, 1]];
  assert.equal(percentile(buckets, 0.5), 10);
  assert.equal(percentile(buckets, 0.51), 20);
  assert.equal(percentile(buckets, 0.99), 20);
  assert.equal(percentile(buckets, 0.991), 500);
  assert.equal(percentile([], 0.5), null);
});

test("looks are kept for a while, and never fewer than two", () => {
  const looks = new Looks(1000);
  for (const at of [0, 500, 1000, 1500]) looks.add(at, at);
  assert.deepEqual([looks.first.what, looks.last.what, looks.seconds], [500, 1500, 1]);
  looks.add(60_000, "late");
  assert.deepEqual([looks.first.what, looks.last.what], [1500, "late"]);
});

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

test("a server is compared with itself, whoever comes, goes or starts anew", () => {
  const looks = new Looks(10_000);
  const look = (at, counts) => looks.add(at, Object.entries(counts).map(([name, requests]) => ({ name, requests })));
  look(0, { a: 10, b: 500 });
  look(1000, { b: 600, c: 7 });
  look(2000, { b: 50, c: 9 });
  look(3000, { c: 12, b: 80 });
  assert.deepEqual(looks.since("b"), { before: { name: "b", requests: 50 }, seconds: 1 });
  assert.deepEqual(looks.since("c"), { before: { name: "c", requests: 7 }, seconds: 2 });
  look(4000, { d: 1 });
  assert.deepEqual(looks.since("d"), { before: { name: "d", requests: 1 }, seconds: 0 });
});

test("looks are kept for a while, and never fewer than two", () => {
  const looks = new Looks(1000);
  for (const at of [0, 500, 1000, 1500]) looks.add(at, at);
  assert.deepEqual([looks.first.what, looks.last.what, looks.seconds], [500, 1500, 1]);
  looks.add(60_000, "late");
  assert.deepEqual([looks.first.what, looks.last.what], [1500, "late"]);
});

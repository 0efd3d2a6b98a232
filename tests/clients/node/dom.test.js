// How the console writes numbers, and texts of others.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, count, legible, micros } from "../../../console/dom.js";

test("a time has three digits, and no zero is lost before the point", () => {
  const written = [0.5, 8, 100, 110, 999.9, 1340, 120_000, 2_500_000].map(micros);
  assert.deepEqual(written, ["500 ns", "8 µs", "100 µs", "110 µs", "1000 µs", "1.34 ms", "120 ms", "2.5 s"]);
});

test("a small number keeps its tenths, a large one none", () => {
  assert.deepEqual([0, 1.5, 3, 10.4, 1234.5].map(count), ["0", "1.5", "3", "10", "1,235"]);
});

test("bytes have three digits, and no exponent", () => {
  const written = [0, 1023, 1024, 1536, 1000 * 1024, 1023 * 1024, 5 * 2 ** 30, 2 ** 63].map(bytes);
  assert.deepEqual(written, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1000 KiB", "1020 KiB", "5 GiB", "8 EiB"]);
});

test("a character that turns the direction of a text is written out, and others stay", () => {
  assert.equal(legible("a\u202etxt.exe\u2066b\u2069"), "a\\u202etxt.exe\\u2066b\\u2069");
  assert.equal(legible("עברית \u200f é \n"), "עברית \u200f é \n");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { headerLines, headersOf } from "../../../console/headers.js";

test("a name that stands in several lines has all its values, in their order", () => {
  assert.deepEqual(headersOf("kind: a\n\nby: x:y\nkind:b\nkind:"), { kind: ["a", "b", ""], by: "x:y" });
  assert.deepEqual(headersOf(""), {});
  assert.throws(() => headersOf("no colon"), /name: value, not no colon/);
});

test("every value has a line, and says whether it is base64", () => {
  const message = { headers: { kind: ["a", "b"], by: "x" }, headers_base64: { kind: "/wA=", bytes: ["AA==", "AQ=="] } };
  const lines = ["kind: a", "kind: b", "by: x", "kind, in base64: /wA=", "bytes, in base64: AA==", "bytes, in base64: AQ=="];
  assert.deepEqual(headerLines(message), lines);
  assert.deepEqual(headerLines({}), []);
});

// How the store is.

import { get } from "./api.js";
import { bytes, count, h, renew, table } from "./dom.js";

export async function store(main, at) {
  const place = h("div");
  main.append(place);
  at.again(2000, place, async () => {
    const status = await get("/v1/status");
    if (!at.isShown()) return;
    const figure = ([name, value]) => (/bytes/.test(name) ? bytes(value) : count(value));
    renew(place, [
      h("p", {}, h("strong", {}, status.store), " ",
        status.ready ? h("span", { class: "good" }, "accepts changes") : h("span", { class: "bad" }, status.trouble)),
      table("Figures of the store", [
        ["figure", ([name]) => name.replaceAll("_", " ")],
        ["value", figure, "number"],
      ], Object.entries(status.figures)),
      h("p", { class: "faint" }, `posthaste ${status.version}, up ${count(status.uptime_s)} s`),
    ]);
  });
}

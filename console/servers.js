// The memcached servers: who takes part, who does how much of it, who is slow.

import { get } from "./api.js";
import { count, h, micros, renew, table } from "./dom.js";
import { between, Looks, percentile } from "./figures.js";

const BACK_MS = 10_000;

export async function servers(main, at) {
  const place = h("div");
  const looks = new Looks(BACK_MS);
  main.append(place);
  at.again(1000, place, async () => {
    const { servers } = await get("/v1/servers");
    if (!at.isShown()) return;
    looks.add(performance.now(), servers);
    renew(place, view(looks));
  });
}

function view(looks) {
  const now = looks.last.what;
  if (!now.length) return [h("p", { class: "faint" }, "No servers: --mock gives fixed answers.")];
  const rows = now.map((server) => row(server, looks.since(server.name)));
  const total = rows.reduce((sum, server) => sum + server.sent, 0);
  const away = now.filter((server) => ["away", "down"].includes(server.state)).length;
  return [
    h("p", {}, `${count(now.length - away)} of ${count(now.length)} take part. `,
      h("span", { class: "faint" }, looks.seconds
        ? `Rates, shares and times are of the last ${Math.ceil(looks.seconds)} s; the rest is since the start.`
        : "Rates, shares and times come with the next look; the rest is since the start.")),
    table("Servers", [
      ["server", (server) => server.name, "address"],
      ["state", (server) => state(server.state)],
      ["pools", (server) => server.pools.join(", ")],
      ["share of commands", (server) => share(total ? server.sent / total : 0)],
      ["commands per s", (server) => count(server.perSecond), "number"],
      ["keys per s", (server) => count(server.keysPerSecond), "number"],
      ["answer, median", (server) => time(server.buckets, 0.5), "number"],
      ["99 %", (server) => time(server.buckets, 0.99), "number"],
      ["errors", (server) => count(server.errors), "number"],
      ["times lost", (server) => count(server.losses), "number"],
    ], rows),
  ];
}

function row(server, { before, seconds }) {
  const sent = server.requests - before.requests;
  return {
    ...server,
    sent,
    perSecond: seconds ? sent / seconds : 0,
    keysPerSecond: seconds ? (server.keys - before.keys) / seconds : 0,
    buckets: between(before.replies_below_us ?? [], server.replies_below_us ?? []),
  };
}

function state(word) {
  return h("span", { class: word === "live" ? "good" : "bad" }, word === "live" ? "● live" : `▲ ${word}`);
}

function share(part) {
  const bar = h("span", { class: "bar" });
  bar.style.width = `${Math.round(part * 100)}%`;
  return h("span", { class: "share" }, h("span", { class: "track" }, bar), `${(part * 100).toFixed(1)} %`);
}

function time(buckets, share) {
  const below = percentile(buckets, share);
  return below === null ? "–" : `≤ ${micros(below)}`;
}

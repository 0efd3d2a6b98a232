// Routes, pools and their rules; and where one key goes.

import { get, query } from "./api.js";
import { count, h, renew, table } from "./dom.js";

const COMMANDS = ["get", "gets", "set", "add", "cas", "incr", "touch", "delete"];

export async function routes(main, at) {
  const answer = h("div", { role: "status" });
  const key = h("input", { type: "search", name: "key", required: true, autocomplete: "off", placeholder: "a key" });
  const command = h("select", { name: "command" }, COMMANDS.map((word) => h("option", {}, word)));
  let last = 0;
  const explain = () => at.run(async () => {
    last += 1;
    const mine = last;
    const found = await get(`/v1/routes/explain${query({ key: key.value, command: command.value })}`);
    // An answer may be overtaken by that to a later question.
    if (at.isShown() && mine === last) answer.replaceChildren(...way(found));
  });
  const inForce = h("div");
  main.append(
    h("h2", {}, "Where does a key go?"),
    h("form", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      explain();
    } },
    h("label", {}, "Key (press /)", key), h("label", {}, "Command", command),
    h("button", { class: "main" }, "Explain")),
    answer, inForce);
  at.again(5000, inForce, async () => {
    const [{ routes }, { pools }] = await Promise.all([get("/v1/routes"), get("/v1/pools")]);
    if (at.isShown()) renew(inForce, tables(routes, pools));
  });
}

function way({ key, command, server_key: serverKey, pool, servers, sentences }) {
  const changed = serverKey !== null && serverKey !== undefined && serverKey !== key;
  return [h("section", { class: "way", "aria-label": `Where ${key} goes` },
    h("p", {}, h("strong", {}, `${command} ${key}`), changed ? `, which servers see as ${serverKey}` : "",
      pool ? `: pool ${pool}` : ": no pool"),
    h("ul", {}, servers.map((server) => h("li", {}, server))),
    sentences.map((sentence) => h("p", { class: "faint" }, sentence)))];
}

function tables(routes, pools) {
  return [
    h("h2", {}, "Routes"),
    table("Routes", [
      ["keys that begin with", (route) => route.prefix || h("span", { class: "faint" }, "anything"), "name"],
      ["commands", (route) => route.commands?.join(", ") ?? h("span", { class: "faint" }, "all")],
      ["go to pool", (route) => route.pool, "name"],
      ["besides", besides],
      ["requests", (route) => ("requests" in route ? count(route.requests) : "–"), "number"],
    ], routes),
    h("h2", {}, "Pools"),
    table("Pools", [
      ["pool", (pool) => pool.name, "name"],
      ["servers", (pool) => pool.servers.map(member), "name"],
      ["writes", (pool) => (pool.answer && pool.writes === "all" ? `all, answered by ${pool.answer}` : pool.writes)],
      ["reads", (pool) => pool.reads],
      ["gets of several keys", (pool) => pool.multiget],
      ["placed by", (pool) => (pool.key_part ? `${pool.hash} of ${pool.key_part}` : pool.hash)],
      ["other pools", otherPools],
    ], pools),
  ];
}

function besides(route) {
  const notes = [];
  if (route.strip) notes.push("servers see keys without it");
  if (route.add_prefix) notes.push(`servers see keys with ${route.add_prefix} before them`);
  if (route.limit) notes.push(`at most ${route.limit} a second, ${route.burst} at once (${route.refused} refused)`);
  if (route.timed_out) notes.push(`${route.timed_out} answered without, after ${route.timeout_s} s`);
  if (route.shadow) notes.push(`repeated in ${route.shadow} for ${(route.shadow_share * 100).toFixed(1)} % of the keys`);
  return notes.join(", ") || "–";
}

function member({ server, name, weight, zone, state }) {
  const notes = [];
  if (name !== server) notes.push(`placed as ${name}`);
  if (weight > 1) notes.push(`weight ${weight}`);
  if (zone) notes.push(`zone ${zone}`);
  if (state !== "live") notes.push(state);
  return h("div", { class: state === "live" ? null : "bad" }, notes.length ? `${server} (${notes.join(", ")})` : server);
}

function otherPools(pool) {
  const others = (pool.failover ?? []).map((other) => other.pool);
  const notes = others.length ? [`${others.join(", then ")} when servers are away`] : [];
  if (pool.below) notes.push(`above ${pool.below}`);
  if (pool.warm_from) notes.push(`warmed from ${pool.warm_from}`);
  if (pool.deletes_to?.length) notes.push(`deletions go to ${pool.deletes_to.join(", ")} too`);
  return notes.join("; ") || "–";
}

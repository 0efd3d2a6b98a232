// One queue: what it is, what it holds, and what can be done to it.

import { get, post, query, queuePath, remove } from "./api.js";
import { age, bytes, confirmed, count, h, table } from "./dom.js";

const PAGE = 50;

export async function queue(main, at) {
  const [name] = at.parameters;
  const about = h("dl", { class: "tiles" });
  const messages = h("div");
  const asked = { after: "", from: "", to: "", count: PAGE };
  const refresh = () => at.run(async () => {
    await Promise.all([describe(), list()]);
  });

  async function describe() {
    const info = await get(queuePath(name));
    if (at.isShown()) about.replaceChildren(...facts(info));
  }
  async function list() {
    const wanted = query(asked);
    const found = await get(queuePath(name, `/messages${wanted}`));
    if (at.isShown() && wanted === query(asked)) messages.replaceChildren(...page(found, asked, () => at.run(list)));
  }

  main.append(about, actions(name, at, refresh), sending(name, at, refresh), h("h2", {}, "Messages"),
    filter(asked, () => at.run(list)), messages);
  await list();
  at.again(2000, describe);
}

function facts(info) {
  const tile = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  const limits = [
    info.maxmsgs !== null && tile("most messages", count(info.maxmsgs)),
    info.maxbytes !== null && tile("most bytes", bytes(info.maxbytes)),
    info.ttl_ms !== null && tile("time to live", age(info.ttl_ms)),
    info.deadletter && tile(`dead after ${info.deadletter.after} deliveries`, `→ ${info.deadletter.queue}`),
    info.forbidself ? tile("to oneself", "forbidden") : null,
    info.strict ? tile("recipients", "must have logged in") : null,
  ];
  return [
    tile("messages", count(info.messages)),
    tile("leased", count(info.leased)),
    tile("delayed", count(info.delayed)),
    tile("bytes", bytes(info.bytes)),
    tile("oldest", info.messages ? age(info.oldest_ms) : "–"),
    ...limits.filter(Boolean),
  ];
}

function actions(name, at, refresh) {
  const act = (question, verb, work) => at.run(async () => {
    if (await confirmed(question, verb)) await work();
  });
  return h("div", { class: "row" },
    h("button", { onclick: refresh }, "Refresh"),
    h("button", { onclick: () => act(`Send the dead letters in ${name} back to the queues they came from?`, "Redrive", async () => {
      const { moved } = await post(queuePath(name, "/redrive"), {});
      at.tell(`${count(moved)} dead letters moved back.`);
      refresh();
    }) }, "Redrive dead letters"),
    h("button", { class: "danger", onclick: () => act(`Remove every message in ${name}? They are gone for good.`, "Purge", async () => {
      await post(queuePath(name, "/purge"), {});
      refresh();
    }) }, "Purge"),
    h("button", { class: "danger", onclick: () => act(`Delete ${name} with all its messages?`, "Delete", async () => {
      await remove(queuePath(name));
      location.hash = "#/queues";
    }) }, "Delete queue"));
}

function sending(name, at, refresh) {
  const body = h("textarea", { name: "body", required: true });
  const to = h("input", { name: "to", placeholder: "anyone" });
  const priority = h("input", { name: "priority", type: "number", min: 0, max: 255, value: 0 });
  return h("details", {},
    h("summary", {}, "Send a message"),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      at.run(async () => {
        const message = { body: body.value, priority: Number(priority.value) };
        if (to.value) message.to = to.value;
        await post(queuePath(name, "/messages"), message);
        body.value = "";
        refresh();
      });
    } },
    h("label", {}, "Body", body), h("label", {}, "To", to), h("label", {}, "Priority", priority),
    h("button", { class: "main" }, "Send")));
}

function filter(asked, list) {
  const field = (title, name) => {
    const input = h("input", { name, onchange: () => {
      asked[name] = input.value;
      asked.after = "";
      list();
    } });
    return h("label", {}, title, input);
  };
  return h("form", { onsubmit: (event) => event.preventDefault() },
    field("From", "from"), field("To (- for anyone)", "to"),
    h("button", { onclick: list }, "Filter"));
}

function page({ messages, next }, asked, list) {
  const go = (after) => {
    asked.after = after;
    list();
  };
  const shown = messages.length
    ? table("Messages", [
      ["id", (message) => String(message.id), "number"],
      ["state", (message) => state(message)],
      ["from", (message) => message.from, "name"],
      ["to", (message) => message.to ?? h("span", { class: "faint" }, "anyone"), "name"],
      ["age", (message) => age(Math.max(Date.now() - message.sent_ms, 0)), "number"],
      ["deliveries", (message) => String(message.deliveries), "number"],
      ["body", body, "body"],
    ], messages)
    : h("p", { class: "faint" }, "Nothing here.");
  return [shown, h("div", { class: "row" },
    h("button", { disabled: asked.after === "", onclick: () => go("") }, "← First"),
    h("button", { disabled: !next, onclick: () => go(next) }, "More →"))];
}

function state(message) {
  const notes = [message.state];
  if (message.priority) notes.push(`priority ${message.priority}`);
  if (message.first_queue) notes.push(`dead letter from ${message.first_queue}: ${message.reason}`);
  return notes.join(", ");
}

function body(message) {
  const parts = [message.body ?? `(${message.body_base64.length} characters of base64) ${message.body_base64}`];
  const headers = Object.entries(message.headers ?? {});
  if (headers.length) parts.unshift(h("div", { class: "faint" }, headers.map(([name, value]) => `${name}: ${value}`).join("\n")));
  return parts;
}

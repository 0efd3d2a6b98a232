// One queue: what it is, what it holds, and what can be done to it.

import { get, post, query, queuePath, remove } from "./api.js";
import { age, bytes, confirmed, count, h, legible, many, renew, table } from "./dom.js";
import { headerLines, headersOf } from "./headers.js";

const PAGE = 50;

export async function queue(main, at) {
  const name = at.parameter;
  const about = h("dl", { class: "tiles" });
  const messages = h("div");
  const asked = { after: "", from: "", to: "", count: PAGE };
  const refresh = () => at.run(async () => {
    await Promise.all([describe(), list()]);
  });

  async function describe() {
    const info = await get(queuePath(name));
    if (at.isShown()) renew(about, facts(info));
  }
  async function list() {
    const wanted = query(asked);
    const found = await get(queuePath(name, `/messages${wanted}`));
    if (at.isShown() && wanted === query(asked)) renew(messages, page(found, asked, () => at.run(list)));
  }

  main.append(about, actions(name, at, refresh), sending(name, at, refresh), h("h2", {}, "Messages"),
    filter(asked, () => at.run(list)), messages);
  at.again(2000, about, describe);
  at.once(list);
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
  const act = (question, verb, work, field) => at.run(async () => {
    if (await confirmed(question, verb, field)) await work();
  });
  const to = h("input", { name: "to", placeholder: "where each came from" });
  return h("div", { class: "row" },
    h("button", { onclick: refresh }, "Refresh"),
    h("button", { onclick: () => act(`Move the dead letters that are kept in ${name} back?`, "Redrive", async () => {
      const { moved } = await post(queuePath(name, "/redrive"), to.value ? { to: to.value } : {});
      at.tell(moved ? `${many(moved, "dead letter")} moved back.` : `No dead letters are kept in ${name}.`);
      refresh();
    }, h("label", {}, "To the queue", to)) }, "Redrive dead letters kept here"),
    h("button", { class: "danger", onclick: () => act(`Remove every message in ${name}? They are gone for good.`, "Purge", async () => {
      const { removed } = await post(queuePath(name, "/purge"), {});
      at.tell(`${many(removed, "message")} removed.`);
      refresh();
    }) }, "Purge"),
    h("button", { class: "danger", onclick: () => act(`Delete ${name} with all its messages?`, "Delete", async () => {
      await remove(queuePath(name));
      location.hash = "#/queues";
    }) }, "Delete queue"));
}

// What a message may have beside its body: label, field of the JSON, attributes of the input, how it is read.
const OPTIONS = [
  ["To", "to", { placeholder: "anyone; * for a copy to everyone" }, String],
  ["Priority (0 to 255)", "priority", { type: "number", min: 0, max: 255, placeholder: "0" }, Number],
  ["Delay in ms", "delay_ms", { type: "number", min: 0, placeholder: "0" }, Number],
  ["Time to live in ms", "ttl_ms", { type: "number", min: 1, placeholder: "that of the queue" }, Number],
  ["Dedup key", "dedup", { placeholder: "none" }, String],
];

function sending(name, at, refresh) {
  const body = h("textarea", { name: "body", required: true });
  const headers = h("textarea", { name: "headers", placeholder: "name: value, one in a line" });
  const options = OPTIONS.map(([label, field, attributes, read]) => ({
    label, field, read, input: h("input", { name: field, ...attributes }),
  }));
  const message = () => {
    const given = options.filter(({ input }) => input.value !== "");
    return {
      body: body.value,
      ...Object.fromEntries(given.map(({ field, read, input }) => [field, read(input.value)])),
      headers: headersOf(headers.value),
    };
  };
  return h("details", {},
    h("summary", {}, "Send a message"),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      at.run(async () => {
        const { id, copies } = await post(queuePath(name, "/messages"), message());
        at.tell(copies === undefined ? `Sent as message ${id}.` : `Sent to ${many(copies, "account")}.`);
        body.value = "";
        // Of that message alone: the next one under it would be answered as that one was, and not be stored.
        options.find(({ field }) => field === "dedup").input.value = "";
        refresh();
      });
    } },
    h("label", { class: "wide" }, "Body", body),
    options.map(({ label, input }) => h("label", {}, label, input)),
    h("label", { class: "wide" }, "Headers", headers),
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
      ["state", state, "state"],
      ["from", (message) => message.from, "name"],
      ["to", (message) => message.to ?? h("span", { class: "faint" }, "anyone"), "name"],
      ["age", (message) => age(Math.max(Date.now() - message.sent_ms, 0)), "number"],
      ["deliveries", (message) => String(message.deliveries), "number"],
      ["body", body, "body"],
    ], messages)
    : h("p", { class: "faint" }, next ? "Nothing yet: there are more to look through." : "Nothing here.");
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

// Bodies and headers are text and nothing else. Long ones are shown by their beginning, until one is asked for.
const BEGINNING = 1000;

function body(message) {
  const headers = headerLines(message).join("\n");
  return [
    headers ? h("div", { class: "faint" }, beginning(headers)) : null,
    message.body === undefined ? h("div", { class: "faint" }, "no text; in base64:") : null,
    ...beginning(message.body ?? message.body_base64),
  ];
}

function beginning(text) {
  const shown = h("span", {}, text.slice(0, BEGINNING));
  if (text.length <= BEGINNING) return [shown];
  const more = h("button", { onclick: () => {
    shown.textContent = legible(text);
    more.remove();
  } }, `… all ${count(text.length)} characters`);
  return [shown, more];
}

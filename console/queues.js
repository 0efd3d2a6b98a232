// All queues, searched, sorted and cut into pages by the server, so that 100,000 of them are as quick as ten.

import { get, NotThere, post, query, queuePath } from "./api.js";
import { age, bytes, count, h, renew } from "./dom.js";

const PAGE = 50;

// A search is asked for when somebody stops typing for so long.
const TYPING_MS = 150;

const COLUMNS = [
  ["name", "name"],
  ["id", "id"],
  ["messages", "messages"],
  ["bytes", "bytes"],
  ["oldest", "oldest_ms"],
];

export async function queues(main, at) {
  const asked = { search: "", sort: "id", descending: false, offset: 0, limit: PAGE };
  let typing;
  const search = h("input", { type: "search", id: "search", placeholder: "part of a name", oninput: () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      asked.search = search.value;
      asked.offset = 0;
      at.run(list);
    }, TYPING_MS);
  } });
  const place = h("div");
  main.append(
    h("form", { role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Search (press /)", search)),
    place, creating(at));

  async function list() {
    const wanted = query(asked);
    const found = await get(`/v1/queues${wanted}`);
    // An answer may be overtaken by that to a later question.
    if (!at.isShown() || wanted !== query(asked)) return;
    if (asked.offset > 0 && asked.offset >= found.total) {
      // What was there is gone: the last page is another one.
      asked.offset = Math.max(0, Math.ceil(found.total / PAGE) - 1) * PAGE;
      await list();
      return;
    }
    renew(place, view(found, asked, () => at.run(list)));
  }
  at.again(3000, place, list);
}

// Options of a new queue: label, field of the JSON, attributes of the input.
const LIMITS = [
  ["Most messages", "maxmsgs", { min: 1, placeholder: "no limit" }],
  ["Most bytes", "maxbytes", { min: 1, placeholder: "no limit" }],
  ["Time to live in ms", "ttl_ms", { min: 1, placeholder: "for good" }],
];
const SWITCHES = [["Nobody may send to themselves", "forbidself"], ["Recipients must have logged in", "strict"]];

// To the server an existing name is a wish to replace its options, which nobody has here: the form does not show them.
async function exists(name) {
  try {
    await get(queuePath(name));
    return true;
  } catch (error) {
    if (error instanceof NotThere) return false;
    throw error;
  }
}

function creating(at) {
  const name = h("input", { name: "name", required: true, maxlength: 255 });
  const limits = LIMITS.map(([label, field, attributes]) => ({
    label, field, input: h("input", { name: field, type: "number", ...attributes }),
  }));
  const switches = SWITCHES.map(([label, field]) => ({ label, field, input: h("input", { name: field, type: "checkbox" }) }));
  const dead = h("input", { name: "deadletter", placeholder: "none" });
  const after = h("input", { name: "after", type: "number", min: 1, value: 5 });
  const wanted = () => ({
    name: name.value,
    ...Object.fromEntries(limits.filter(({ input }) => input.value).map(({ field, input }) => [field, Number(input.value)])),
    ...Object.fromEntries(switches.map(({ field, input }) => [field, input.checked])),
    ...(dead.value && { deadletter: { queue: dead.value, after: Number(after.value) } }),
  });
  return h("details", {},
    h("summary", {}, "New queue"),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      at.run(async () => {
        if (await exists(name.value)) throw new Error(`There is a queue ${name.value} already.`);
        const made = await post("/v1/queues", wanted());
        location.hash = `#/queues/${encodeURIComponent(made.name)}`;
      });
    } },
    h("label", {}, "Name", name),
    limits.map(({ label, input }) => h("label", {}, label, input)),
    h("label", {}, "Dead letters go to", dead),
    h("label", {}, "after this many deliveries", after),
    switches.map(({ label, input }) => h("label", { class: "switch" }, input, label)),
    h("button", { class: "main" }, "Create")));
}

function view({ total, queues: page }, asked, list) {
  const turn = (by) => {
    asked.offset = Math.max(0, asked.offset + by);
    list();
  };
  const heading = ([title, field]) => {
    const sorted = asked.sort === field;
    const sort = () => {
      asked.descending = sorted ? !asked.descending : field !== "name" && field !== "id";
      asked.sort = field;
      asked.offset = 0;
      list();
    };
    const order = asked.descending ? "descending" : "ascending";
    return h("th", { scope: "col", class: field === "name" ? null : "number", "aria-sort": sorted ? order : null },
      h("button", { type: "button", onclick: sort }, title, sorted ? (asked.descending ? " ↓" : " ↑") : ""));
  };
  const rows = page.map((queue) => h("tr", {},
    h("td", { class: "name" }, h("a", { href: `#/queues/${encodeURIComponent(queue.name)}` }, queue.name)),
    h("td", { class: "number", "data-label": "id" }, String(queue.id)),
    h("td", { class: "number", "data-label": "messages" }, count(queue.messages)),
    h("td", { class: "number", "data-label": "bytes" }, bytes(queue.bytes)),
    h("td", { class: "number", "data-label": "oldest" }, queue.messages ? age(queue.oldest_ms) : "–")));
  const last = asked.offset + page.length;
  return [
    h("div", { class: "scroll" },
      h("table", { "aria-label": "Queues" }, h("thead", { class: "sorts" }, h("tr", {}, COLUMNS.map(heading))), h("tbody", {}, rows))),
    h("div", { class: "row" },
      h("button", { disabled: asked.offset === 0, onclick: () => turn(-PAGE) }, "← Previous"),
      h("button", { disabled: last >= total, onclick: () => turn(PAGE) }, "Next →"),
      h("span", { class: "faint" }, total ? `${count(asked.offset + 1)} to ${count(last)} of ${count(total)}` : "no queues")),
  ];
}

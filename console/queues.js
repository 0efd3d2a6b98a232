// All queues, searched, sorted and cut into pages by the server, so that 100,000 of them are as quick as ten.

import { get, post, query } from "./api.js";
import { age, bytes, count, h } from "./dom.js";

const PAGE = 50;
const COLUMNS = [
  ["name", "name"],
  ["id", "id"],
  ["messages", "messages"],
  ["bytes", "bytes"],
  ["oldest", "oldest_ms"],
];

export async function queues(main, at) {
  const asked = { search: "", sort: "id", descending: false, offset: 0, limit: PAGE };
  const search = h("input", { type: "search", id: "search", placeholder: "part of a name", oninput: () => {
    asked.search = search.value;
    asked.offset = 0;
    at.run(list);
  } });
  const name = h("input", { name: "name", required: true, maxlength: 255 });
  const place = h("div");
  main.append(
    h("form", { role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Search (press /)", search)),
    place,
    h("h2", {}, "New queue"),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      at.run(async () => {
        await post("/v1/queues", { name: name.value });
        location.hash = `#/queues/${encodeURIComponent(name.value)}`;
      });
    } }, h("label", {}, "Name", name), h("button", { class: "main" }, "Create")));

  async function list() {
    const wanted = query(asked);
    const found = await get(`/v1/queues${wanted}`);
    // An answer may be overtaken by that to a later question.
    if (!at.isShown() || wanted !== query(asked)) return;
    place.replaceChildren(...view(found, asked, () => at.run(list)));
  }
  at.again(3000, list);
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
    h("td", { class: "number" }, String(queue.id)),
    h("td", { class: "number" }, count(queue.messages)),
    h("td", { class: "number" }, bytes(queue.bytes)),
    h("td", { class: "number" }, queue.messages ? age(queue.oldest_ms) : "–")));
  const last = asked.offset + page.length;
  return [
    h("div", { class: "scroll" },
      h("table", { "aria-label": "Queues" }, h("thead", {}, h("tr", {}, COLUMNS.map(heading))), h("tbody", {}, rows))),
    h("div", { class: "row" },
      h("button", { disabled: asked.offset === 0, onclick: () => turn(-PAGE) }, "← Previous"),
      h("button", { disabled: last >= total, onclick: () => turn(PAGE) }, "Next →"),
      h("span", { class: "faint" }, total ? `${count(asked.offset + 1)} to ${count(last)} of ${count(total)}` : "no queues")),
  ];
}

// Accounts, and the connections of those who are here.

import { get, query, remove } from "./api.js";
import { age, bytes, confirmed, count, h, many, renew, table } from "./dom.js";

const PAGE = 100;
const ACCOUNTS_SHOWN = 500;

export async function accounts(main, at) {
  let all = [];
  const place = h("div");
  const list = () => {
    const wanted = search.value.toLowerCase();
    const found = all.filter((account) => account.name.toLowerCase().includes(wanted));
    place.replaceChildren(
      h("p", { class: "faint" }, found.length > ACCOUNTS_SHOWN
        ? `The first ${count(ACCOUNTS_SHOWN)} of ${count(found.length)}.`
        : `${many(found.length, "account")}.`),
      table("Accounts", [["id", (account) => String(account.id), "number"], ["name", (account) => account.name, "name"]],
        found.slice(0, ACCOUNTS_SHOWN)));
  };
  const search = h("input", { type: "search", placeholder: "part of a name", oninput: list });
  main.append(
    h("p", { class: "faint" }, "Those that have logged in or stand in the accounts file."),
    h("form", { role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Search (press /)", search)),
    place);
  at.once(async () => {
    all = (await get("/v1/accounts")).accounts;
    if (at.isShown()) list();
  });
}

// What a tier knows of its clients differs: a column is shown where there is something for it.
const COLUMNS = [
  ["id", "id", String, "number"],
  ["peer", "peer", String, "address"],
  ["account", "account", String, "name"],
  ["name", "name", String, "name"],
  ["library", "library", String, "name"],
  ["RESP", "protocol", String, "number"],
  ["requests", "requests", count, "number"],
  ["connected for", "age_s", seconds, "number"],
  ["idle for", "idle_s", seconds, "number"],
  ["held for it", "held_bytes", bytes, "number"],
];

// Several may have one name, and those over a unix socket have one address.
function called({ id, name, peer }) {
  return `${name || peer} (${id})`;
}

export async function clients(main, at) {
  const place = h("div");
  const behind = []; // the ids that the pages before this one begin behind
  let after = 0;
  main.append(place);

  const list = async () => {
    const wanted = after;
    const found = await get(`/v1/clients${query({ after: wanted, limit: PAGE })}`);
    if (!at.isShown() || wanted !== after) return;
    renew(place, view(found));
  };
  const go = (id) => {
    after = id;
    at.run(list);
  };
  const close = (client) => at.run(async () => {
    if (!await confirmed(`Close the connection of ${called(client)}?`, "Close")) return;
    const { closed } = await remove(`/v1/clients/${client.id}`);
    at.tell(closed ? `The connection of ${called(client)} is closed.` : "It had left already.");
    await list();
  });

  function view(found) {
    const columns = COLUMNS.filter(([, field]) => found.some((client) => field in client));
    const closeButton = (client) => h("button", {
      class: "danger", "aria-label": `Close ${called(client)}`, onclick: () => close(client),
    }, "Close");
    return [
      found.length
        ? table("Clients", [
          ...columns.map(([title, field, say, name]) => [title, (client) => say(client[field]), name]),
          ["", closeButton],
        ], found)
        : h("p", { class: "faint" }, "Nobody is here."),
      h("div", { class: "row" },
        h("button", { disabled: !behind.length, onclick: () => go(behind.pop()) }, "← Previous"),
        h("button", { disabled: found.length < PAGE, onclick: () => {
          behind.push(after);
          go(found.at(-1).id);
        } }, "Next →")),
    ];
  }
  at.again(2000, place, list);
}

function seconds(number) {
  return age(number * 1000);
}

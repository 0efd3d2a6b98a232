// Accounts, and the connections of those who are here.

import { get, remove } from "./api.js";
import { confirmed, count, h, table } from "./dom.js";

export async function accounts(main, at) {
  const found = (await get("/v1/accounts")).accounts;
  if (!at.isShown()) return;
  main.append(
    h("p", { class: "faint" }, `${count(found.length)} accounts have logged in or stand in the accounts file.`),
    table("Accounts", [["id", (account) => String(account.id), "number"], ["name", (account) => account.name, "name"]], found));
}

export async function clients(main, at) {
  const place = h("div");
  main.append(place);
  const list = async () => {
    const found = await get("/v1/clients");
    if (!at.isShown()) return;
    const close = (client) => at.run(async () => {
      if (await confirmed(`Close the connection of ${client.name || client.peer}?`, "Close")) {
        await remove(`/v1/clients/${client.id}`);
        await list();
      }
    });
    // Not while somebody is about to press a button of it.
    if (place.contains(document.activeElement)) return;
    place.replaceChildren(table("Clients", [
      ["id", (client) => String(client.id), "number"],
      ["peer", (client) => client.peer, "name"],
      ["account", (client) => client.account, "name"],
      ["name", (client) => client.name, "name"],
      ["library", (client) => client.library, "name"],
      ["RESP", (client) => String(client.protocol), "number"],
      ["requests", (client) => count(client.requests), "number"],
      ["", (client) => h("button", { class: "danger", onclick: () => close(client) }, "Close")],
    ], found));
  };
  at.again(2000, list);
}

// What differs between the tiers: their pages, in the order of the navigation, and what their stages are.

import { overview } from "./overview.js";
import { accounts, clients } from "./people.js";
import { queue } from "./queue.js";
import { queues } from "./queues.js";
import { routes } from "./routes.js";
import { servers } from "./servers.js";
import { store } from "./store.js";
import { whatif } from "./whatif.js";

const OVERVIEW = { path: "/", page: overview, title: "Overview" };
const WHAT_IF = { path: "/whatif", page: whatif, title: "What if" };
const CLIENTS = { path: "/clients", page: clients, title: "Clients" };

export const TIERS = {
  queue: {
    pages: [
      OVERVIEW,
      { path: "/queues", page: queues, title: "Queues", one: queue },
      { path: "/accounts", page: accounts, title: "Accounts" },
      CLIENTS,
      { path: "/store", page: store, title: "Store" },
      WHAT_IF,
    ],
    stages: {
      parse: "read and parsed",
      waiting: "waits for a worker",
      dispatch: "handed to the store",
      service: "the store works",
      reply: "answer written",
    },
    nothing: "found nothing",
    levels: { line_requests: "requests waiting", connections: "clients" },
  },
  cache: {
    pages: [
      OVERVIEW,
      { path: "/servers", page: servers, title: "Servers" },
      { path: "/routes", page: routes, title: "Routes" },
      CLIENTS,
      WHAT_IF,
    ],
    stages: {
      parse: "read and parsed",
      waiting: "waits for a worker",
      dispatch: "put together for the servers",
      service: "on the way, and the servers work",
      reply: "answer written",
    },
    nothing: "missed",
    levels: { line_requests: "requests waiting", connections: "clients", servers_live: "servers that take part" },
  },
};

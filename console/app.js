// Pages by the part of the address behind `#`; each is a function that fills an element, and may ask to be called again.

import { get } from "./api.js";
import { h } from "./dom.js";
import { overview } from "./overview.js";
import { accounts, clients } from "./people.js";
import { queue } from "./queue.js";
import { queues } from "./queues.js";
import { store } from "./store.js";

const PAGES = [
  [/^\/$/, overview, "Overview"],
  [/^\/queues$/, queues, "Queues"],
  [/^\/queues\/(.+)$/, queue, "Queue"],
  [/^\/accounts$/, accounts, "Accounts"],
  [/^\/clients$/, clients, "Clients"],
  [/^\/store$/, store, "Store"],
];

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const health = document.getElementById("health");
let shown = 0;

function tell(text) {
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { notice.hidden = true; }, 8000);
}

// What a page needs: its parameters, whether it is still the one shown, to be run again after a while, to say something.
function context(parameters) {
  const mine = ++shown;
  const isShown = () => mine === shown;
  const run = async (work) => {
    try {
      await work();
    } catch (error) {
      if (isShown()) tell(error.message);
    }
  };
  const again = (ms, work) => {
    const round = async () => {
      if (!isShown()) return;
      if (!document.hidden) await run(work);
      setTimeout(round, ms);
    };
    round();
  };
  return { parameters, isShown, again, run, tell };
}

function show() {
  const path = location.hash.slice(1).split("?")[0] || "/";
  const [pattern, page, title] = PAGES.find(([pattern]) => pattern.test(path)) ?? PAGES[0];
  const parameters = (pattern.exec(path) ?? []).slice(1).map(decodeURIComponent);
  document.title = `${parameters[0] ?? title} - Posthaste`;
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href").slice(1);
    const current = target === "/" ? path === "/" : path.startsWith(target);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const at = context(parameters);
  main.replaceChildren(h("h1", {}, parameters[0] ?? title));
  at.run(() => page(main, at));
}

async function look() {
  try {
    const status = await get("/v1/status");
    health.className = status.ready ? "good" : "bad";
    health.textContent = status.ready ? "● ready" : `▲ not ready: ${status.trouble}`;
  } catch (error) {
    health.className = "bad";
    health.textContent = `▲ ${error.message}`;
  }
  setTimeout(look, 2000);
}

addEventListener("hashchange", () => {
  show();
  main.focus();
});
addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});
show();
look();

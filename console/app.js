// Pages by the part of the address behind `#`; each is a function that fills an element, and may ask to be called again.
// Which pages there are depends on the tier, which its server tells.

import { get, LoggedOut } from "./api.js";
import { h, isInUse, legible } from "./dom.js";
import { TIERS } from "./tiers.js";

const main = document.getElementById("main");
const nav = document.getElementById("pages");
const notice = document.getElementById("notice");
const health = document.getElementById("health");
let shown = 0;
let tier;
let isLoggedOut = false;

function tell(text, isError = false) {
  notice.textContent = legible(text);
  notice.className = isError ? "error" : "";
  notice.hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { notice.hidden = true; }, 8000);
}

// What a page needs: its parameter, its tier, whether it is still the one shown, to be run again or once, to say something.
function context(parameter) {
  const mine = ++shown;
  const isShown = () => mine === shown;
  const run = async (work) => {
    try {
      await work();
      return true;
    } catch (error) {
      if (error instanceof LoggedOut) end(error);
      else if (isShown()) tell(error.message, true);
      return false;
    }
  };
  // Until it has worked: the server may be starting again.
  const once = async (work) => {
    if (isShown() && !isLoggedOut && !await run(work)) setTimeout(() => once(work), 2000);
  };
  // Not while somebody is at `place`, which the work would renew. Whatever takes long is asked for less often: the
  // server has better things to do.
  const again = (ms, place, work) => {
    const round = async () => {
      if (!isShown() || isLoggedOut) return;
      const begin = performance.now();
      if (!document.hidden && !isInUse(place)) await run(work);
      setTimeout(round, Math.max(ms, 20 * (performance.now() - begin)));
    };
    round();
  };
  return { parameter, tier, isShown, again, once, run, tell };
}

// The page of an address, and the name behind it: `#/queues/a%2Fb` is that of one queue.
function found(path) {
  const whole = tier.pages.find((page) => page.path === path);
  if (whole) return [whole.page, whole.title];
  const above = tier.pages.find((page) => page.one && path.startsWith(`${page.path}/`));
  if (!above) return [tier.pages[0].page, tier.pages[0].title];
  const name = decoded(path.slice(above.path.length + 1));
  return [above.one, name, name];
}

// What somebody typed need not be encoded.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const path = location.hash.slice(1).split("?")[0] || "/";
  const [page, title, name] = found(path);
  document.title = `${legible(title)} - Posthaste`;
  for (const link of nav.children) {
    const target = link.getAttribute("href").slice(1);
    const current = target === "/" ? path === "/" : path.startsWith(target);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const at = context(name);
  notice.hidden = true;
  main.replaceChildren(h("h1", {}, title));
  at.run(() => page(main, at));
}

// Nothing is asked by itself any more: each time the browser would ask for an account.
function end(error) {
  isLoggedOut = true;
  health.className = "bad";
  health.textContent = `▲ ${error.message}`;
}

async function look() {
  if (isLoggedOut) return;
  try {
    const status = await get("/v1/status");
    health.className = status.ready ? "good" : "bad";
    health.textContent = status.ready ? "● ready" : `▲ not ready: ${status.trouble}`;
    if (!tier) {
      tier = TIERS[status.tier];
      nav.replaceChildren(...tier.pages.map(({ path, title }) => h("a", { href: `#${path}` }, title)));
      document.getElementById("tier").textContent = status.tier;
      show();
    }
  } catch (error) {
    if (error instanceof LoggedOut) {
      end(error);
      return;
    }
    health.className = "bad";
    health.textContent = `▲ ${error.message}`;
  }
  setTimeout(look, 2000);
}

addEventListener("hashchange", () => {
  if (!tier) return;
  show();
  main.focus();
});
// Behind `#` stand pages, so a jump to the content is no address: it would lead to the first page.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});
look();

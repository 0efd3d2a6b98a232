// Uses the console of a cache tier, by keyboard where it can. The third argument names the server that is away.

import { askWhatIf, lookAtAll, tabTo, WIDE, withConsole } from "./browser.js";

const KEY = "<img/src=x>";

await withConsole(async ({ open, look, seen }) => {
  const away = process.argv[4];
  const page = await open(WIDE);
  await page.goto("/");
  await page.getByText("● ready").waitFor();
  await page.getByRole("list", { name: "Stages of the path" }).waitFor();
  seen.pages = await page.getByRole("navigation").getByRole("link").allTextContents();
  seen.charts = await page.locator("figcaption").allTextContents();
  seen.stages = await page.locator(".path li > span:first-child").allTextContents();
  await look(page, "cache-overview-light");

  await tabTo(page, "Servers");
  const row = page.getByRole("row").filter({ hasText: away });
  await row.getByText("▲ away").waitFor();
  await page.getByText("2 of 3 take part.").waitFor();
  await page.getByRole("cell", { name: /^≤ / }).first().waitFor();
  seen.idleShare = await row.getByRole("cell").nth(3).textContent();
  await look(page, "cache-servers-light");

  await tabTo(page, "Routes");
  await page.getByRole("table", { name: "Pools" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(KEY);
  await page.keyboard.press("Enter");
  const way = page.getByRole("region", { name: `Where ${KEY} goes` });
  await way.waitFor();
  seen.reads = await way.getByRole("listitem").count();
  await page.getByLabel("Command").selectOption("cas");
  await page.getByRole("button", { name: "Explain" }).press("Enter");
  await way.getByText(`cas ${KEY}`).waitFor();
  await look(page, "cache-routes-light");
  // An answer that comes late is not shown in place of that to a later question.
  let go;
  const held = new Promise((release) => { go = release; });
  await page.route(/command=get/, async (route) => {
    await held;
    await route.continue();
  });
  await page.getByLabel("Command").selectOption("get");
  await page.getByRole("button", { name: "Explain" }).press("Enter");
  await page.getByLabel("Command").selectOption("touch");
  await page.getByRole("button", { name: "Explain" }).press("Enter");
  await way.getByText(`touch ${KEY}`).waitFor();
  const late = page.waitForResponse(/command=get/);
  go();
  await (await late).finished();
  seen.explained = await way.locator("strong").textContent();
  await tabTo(page, "Clients");
  const close = page.getByRole("button", { name: /^Close / });
  await close.first().waitFor();
  seen.clients = await close.count();
  await look(page, "cache-clients-light");
  await close.first().press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).press("Enter");
  await page.getByText(/is closed\.$/).waitFor();
  await page.waitForFunction((left) => document.querySelectorAll("td button").length === left, seen.clients - 1);

  seen.whatIf = await askWhatIf(page, look, "cache");

  await lookAtAll(open, look, "cache", [["/", "Overview"], ["/#/servers", "Servers"], ["/#/routes", "Routes"],
    ["/#/clients", "Clients"]]);
});

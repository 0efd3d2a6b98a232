// A real Chromium with the console in it, for the programs that use the console and say what they saw.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

import { MODEL } from "./model.js";

const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const PATIENCE_MS = 60_000;

export const WIDE = { viewport: { width: 1200, height: 800 }, colorScheme: "light" };
const NARROW = { viewport: { width: 420, height: 800 }, colorScheme: "light" };

// What else a page is looked at in.
const OTHERS = [
  ["dark", { ...WIDE, colorScheme: "dark" }],
  ["light-narrow", NARROW],
  ["dark-narrow", { ...NARROW, colorScheme: "dark" }],
];

// What hostile names and bodies would become, were they ever taken for markup.
const MARKUP = "main :is(script, img, iframe, object, embed, style, svg[onload], b.hostile), dialog :is(script, img, b.hostile)";

// Arguments of the program: the console's address, and a place for pictures if any are wanted.
export async function withConsole(work) {
  const [address, pictures] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath: PATHS.find(existsSync), args: ["--no-sandbox"] });
  const seen = { errors: [], markup: 0 };
  const open = async (options) => {
    const page = await browser.newPage({ baseURL: address, ...options });
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    return page;
  };
  // Takes a look: is there markup that is not ours, does anything stick out?
  const look = async (page, name) => {
    seen.markup += await page.locator(MARKUP).count();
    seen.overflow ??= [];
    if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.overflow.push(name);
    const isBoxCut = () => [...document.querySelectorAll("dialog, #notice")].some((box) => box.scrollWidth > box.clientWidth);
    if (await page.evaluate(isBoxCut)) seen.overflow.push(`${name}: a question or a notice`);
    // On a narrow window nobody finds what a table has to the right of it.
    const isCut = () => innerWidth < 600 && [...document.querySelectorAll(".scroll")].some((box) => box.scrollWidth > box.clientWidth);
    if (await page.evaluate(isCut)) seen.overflow.push(`${name}: a table`);
    if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
  };
  try {
    await work({ open, look, seen });
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(seen));
}

// Pages of a tier, [path, title], in the dark and in a narrow window.
export async function lookAtAll(open, look, tier, pages) {
  for (const [kind, options] of OTHERS) {
    const page = await open(options);
    for (const [path, title] of pages) {
      await page.goto(path);
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      await page.locator(".tiles, table").first().waitFor();
      await look(page, `${tier}-${title.toLowerCase()}-${kind}`);
    }
    await page.close();
  }
}

// Opens a model and asks it: what is predicted, for more workers too, and what is not.
export async function askWhatIf(page, look, name) {
  await tabTo(page, "What if");
  const choose = (model) => page.getByLabel("model.json").setInputFiles({
    name: "model.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(model)),
  });
  await choose({ ...MODEL, version: 1 });
  await page.getByRole("alert").filter({ hasText: "has version 1" }).waitFor();
  await choose(MODEL);
  await page.getByRole("heading", { name: MODEL.title }).waitFor();
  const clients = page.getByLabel("Clients");
  const tile = (at) => page.locator(".tiles.wide > div").nth(at).locator("dd").first();
  const begins = await clients.inputValue();
  await clients.fill("15");
  const seen = { begins, predicted: [await tile(0).textContent(), await tile(1).textContent()] };
  await look(page, `${name}-whatif-light`);
  await page.getByLabel("What if").selectOption("2 workers");
  seen.gain = await tile(2).textContent();
  await clients.fill("30");
  await page.getByText("More clients than were ever measured").waitFor();
  await look(page, `${name}-whatif-workers-light`);
  await page.setViewportSize(NARROW.viewport);
  await look(page, `${name}-whatif-workers-light-narrow`);
  await page.setViewportSize(WIDE.viewport);
  await clients.fill("41");
  await page.getByText("41 clients are outside what the data support, 1 to 40: 1 to 20 were measured.").waitFor();
  seen.refused = await page.locator(".tiles.wide").count();
  await page.getByLabel("What if").selectOption("store: half");
  await clients.fill("1");
  seen.shorter = await page.locator(".tiles.wide .interval").first().textContent();
  seen.one = await page.locator("main").evaluate((element) => [
    element.textContent.includes("1 clients"), element.textContent.includes("the band is where"),
    element.textContent.includes("Filled circles"),
  ]);
  await look(page, `${name}-whatif-shorter-light`);
  await page.reload();
  await page.getByRole("heading", { name: MODEL.title }).waitFor();
  // However many models are opened, the tier is asked once in two seconds.
  let asked = 0;
  const since = performance.now();
  page.on("request", (request) => { asked += request.url().endsWith("/v1/windows?last=5"); });
  for (let number = 1; number <= 10; number += 1) {
    await choose({ ...MODEL, title: `Model ${number}` });
    await page.getByRole("heading", { name: `Model ${number}`, exact: true }).waitFor();
  }
  await page.waitForTimeout(5000);
  seen.asksTooOften = asked > 3 + (performance.now() - since) / 1000;
  return seen;
}

// A page of the navigation, by keyboard: down from the top, or up from where somebody is.
export async function tabTo(page, name) {
  const link = page.getByRole("navigation").getByRole("link", { name, exact: true });
  await link.waitFor();
  const isAtTop = await page.evaluate(() => document.activeElement === document.body);
  for (let stops = 0; stops < 20; stops += 1) {
    await page.keyboard.press(isAtTop ? "Tab" : "Shift+Tab");
    if (await link.evaluate((element) => element === document.activeElement)) {
      await page.keyboard.press("Enter");
      return;
    }
  }
  throw new Error(`the keyboard does not reach ${name}`);
}

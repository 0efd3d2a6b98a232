// Uses the console in a real Chromium, by keyboard where it can, and says what it saw. With a second argument it leaves
// pictures there, to be looked at.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const [address, pictures] = process.argv.slice(2);
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const seen = { errors: [] };

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

async function open(options) {
  const page = await browser.newPage({ baseURL: address, ...options });
  page.setDefaultTimeout(15_000);
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  return page;
}

try {
  const page = await open({ viewport: { width: 1200, height: 800 }, colorScheme: "light" });
  await page.goto("/");
  await page.getByText("● ready").waitFor();
  await page.getByRole("list", { name: "Stages of the path" }).waitFor();
  seen.stages = await page.locator(".path li > span:first-child").allTextContents();
  await picture(page, "overview-light");

  // By keyboard alone: to the queues, sorted by messages, to the second page, back by a search, into a queue.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Queues" }).waitFor();
  await page.getByRole("button", { name: "messages" }).press("Enter");
  await page.waitForFunction(() => document.querySelector("[aria-sort]")?.textContent.includes("messages ↓"));
  seen.fullest = await page.locator("tbody td.name").first().textContent();
  await picture(page, "queues-light");
  await page.getByRole("button", { name: "Next →" }).press("Enter");
  await page.getByText(/^51 to/).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("HOST");
  await page.getByText("1 to 1 of 1").waitFor();
  await page.locator("tbody a").press("Enter");
  await page.getByRole("heading", { name: "<b>hostile</b>", level: 1 }).waitFor();

  // A message that would be markup is text.
  await page.getByText("Send a message").click();
  await page.getByLabel("Body").fill("<img src=x onerror='document.title=\"owned\"'>");
  await page.getByLabel("To", { exact: true }).fill("bob");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("cell", { name: "<img src=x" }).waitFor();
  seen.title = await page.title();
  seen.images = await page.locator("td img, td b").count();
  await picture(page, "queue-light");
  await page.getByLabel("To (- for anyone)").fill("bob");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);

  // What cannot be undone asks first, and Escape means no.
  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").waitFor();
  await picture(page, "confirm-light");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  seen.kept = await page.locator("dl.tiles dd").first().textContent();
  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText("Nothing here.").waitFor();

  for (const [name, text] of [["Accounts", "default"], ["Clients", "http"], ["Store", "accepts changes"]]) {
    await page.getByRole("link", { name }).click();
    await page.getByText(text).first().waitFor();
    await picture(page, `${name.toLowerCase()}-light`);
  }

  const narrow = await open({ viewport: { width: 380, height: 800 }, colorScheme: "dark" });
  for (const [path, name] of [["/", "overview"], ["/#/queues", "queues"], ["/#/store", "store"]]) {
    await narrow.goto(path);
    await narrow.locator(".tiles, table").first().waitFor();
    seen[`${name}_overflow`] = await narrow.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    await picture(narrow, `${name}-dark-narrow`);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));

// Uses the console of a queue tier, by keyboard where it can.

import { askWhatIf, lookAtAll, tabTo, WIDE, withConsole } from "./browser.js";

const HOSTILE = "<b class=hostile>hostile</b>";
const LONG = "W".repeat(255);
const BODY = "<img src=x onerror='document.title=\"owned\"'>";

await withConsole(async ({ open, look, seen }) => {
  const page = await open(WIDE);
  await page.goto("/");
  await page.getByText("● ready").waitFor();
  await page.getByRole("list", { name: "Stages of the path" }).waitFor();
  seen.charts = await page.locator("figcaption").allTextContents();
  seen.stages = await page.locator(".path li > span:first-child").allTextContents();
  // Some stage is always the widest, and that alone is nothing bad.
  seen.alarms = await page.locator(".path li.widest").evaluateAll((stations) => stations.filter((station) => {
    const bad = document.createElement("i");
    bad.style.color = "var(--bad)";
    station.append(bad);
    const is = getComputedStyle(station).borderTopColor === getComputedStyle(bad).color;
    bad.remove();
    return is;
  }).length);
  await look(page, "queue-overview-light");

  // By keyboard alone: to the queues, sorted by messages, to the second page, back by a search, into a queue.
  await tabTo(page, "Queues");
  await page.getByRole("table", { name: "Queues" }).waitFor();
  const sort = page.getByRole("columnheader", { name: "messages" }).getByRole("button");
  await sort.press("Enter");
  await page.waitForFunction(() => document.querySelector("[aria-sort]")?.textContent.includes("messages ↓"));
  seen.fullest = await page.locator("tbody td.name").first().textContent();
  seen.keptFocus = await sort.evaluate((element) => element === document.activeElement);
  // Past the navigation, and still on the same page.
  await page.getByRole("link", { name: "Skip to the content" }).press("Enter");
  seen.skippedTo = await page.evaluate(() => `${document.activeElement.id} of ${location.hash}`);
  await look(page, "queue-queues-light");
  await page.getByRole("button", { name: "Next →" }).press("Enter");
  await page.getByText(/^51 to/).waitFor();
  // Queues that were on this page are gone meanwhile: the last page that there is is shown.
  await page.route(/offset=50/, (route) => route.fulfill({ json: { total: 40, queues: [] } }));
  await page.getByText(/^1 to 50 of/).waitFor();
  await page.unroute(/offset=50/);
  await page.keyboard.press("/");
  await page.keyboard.type("HOST");
  await page.getByText("1 to 1 of 1").waitFor();
  await page.locator("tbody a").press("Enter");
  await page.getByRole("heading", { name: HOSTILE, level: 1 }).waitFor();

  // A message with everything, which would be markup if it were not text.
  await page.getByText("Send a message").click();
  await page.getByLabel("Body").fill(BODY);
  await page.getByLabel("To", { exact: true }).fill(HOSTILE);
  await page.getByLabel("Priority").fill("7");
  await page.getByLabel("Headers").fill(`x-kind: ${HOSTILE}\nx-empty:`);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText(/^Sent as message/).waitFor();
  const row = page.getByRole("row").filter({ hasText: "priority 7" });
  await row.waitFor();
  seen.sent = await row.locator("td.body").innerText();
  await look(page, "queue-queue-light");

  // A long body is shown by its beginning, until somebody wants all of it.
  const long = page.getByRole("button", { name: /all 5,000 characters/ });
  seen.beginning = (await page.locator("td.body").filter({ has: long }).locator("span").textContent()).length;
  await long.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll("td.body span")].some((span) => span.textContent.length === 5000));

  await page.getByLabel("To (- for anyone)").fill(HOSTILE);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await page.getByLabel("To (- for anyone)").fill("");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length > 1);

  // What cannot be undone asks first, and Escape means no.
  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").waitFor();
  await look(page, "queue-confirm-light");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  seen.kept = await page.locator("dl.tiles dd").first().textContent();
  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText(`${seen.kept} messages removed.`).waitFor();
  await page.getByText("Nothing here.").waitFor();

  // What fails as a page is opened, for the tier starts again, is asked for once more.
  for (const [address, words, asked] of [["/#/accounts", "alice", "accounts"], ["/#/queues/queue-042", "a", "messages"]]) {
    const failing = (url) => url.pathname.endsWith(`/${asked}`);
    await page.route(failing, (route) => route.fulfill({ status: 503, json: { message: "starting" } }), { times: 1 });
    await page.goto(address);
    await page.getByRole("alert").filter({ hasText: "starting" }).waitFor();
    await page.getByRole("cell", { name: words, exact: true }).first().waitFor();
  }
  seen.errors = seen.errors.filter((error) => !error.includes("503"));

  // Dead letters go back where they came from.
  await page.goto("/#/queues/dead");
  await page.getByText(/dead letter from/).waitFor();
  await look(page, "queue-dead-light");
  for (const said of ["1 dead letter moved back.", "No dead letters are kept in dead."]) {
    await page.getByRole("button", { name: "Redrive dead letters kept here" }).press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Redrive" }).press("Enter");
    await page.getByText(said).waitFor();
  }

  // Names of the longest kind, and headers as long: they are whole, and nothing of them sticks out.
  await page.goto(`/#/queues/${LONG}`);
  await page.getByText("dead after 3 deliveries").waitFor();
  await page.getByRole("button", { name: /all 5,003 characters/ }).waitFor();
  await look(page, "queue-long-light");
  await page.getByRole("button", { name: "Delete queue" }).press("Enter");
  await page.getByRole("dialog").waitFor();
  await look(page, "queue-long-confirm-light");
  await page.keyboard.press("Escape");
  await page.goto("/#/queues");
  await page.getByText("New queue").press("Enter");
  await page.getByLabel("Name").fill(LONG);
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: LONG }).waitFor();
  await look(page, "queue-long-notice-light");
  // Two that differ by a blank can be told from each other.
  await page.getByRole("searchbox").fill("blanks");
  await page.getByText("1 to 2 of 2").waitFor();
  seen.blanks = new Set(await page.locator("tbody td.name").evaluateAll((cells) => cells.map((cell) => cell.innerText))).size;
  await page.goto("/#/store");
  await page.getByRole("heading", { name: "Store", level: 1 }).waitFor();

  // A new queue with options, and gone again.
  await page.goto("/#/queues");
  await page.getByText("New queue").press("Enter");
  await page.getByLabel("Name").fill("made here");
  await page.getByLabel("Most messages").fill("10");
  await page.getByLabel("Dead letters go to").fill("dead");
  await look(page, "queue-new-light");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "made here", level: 1 }).waitFor();
  await page.getByText("dead after 5 deliveries").waitFor();
  // A dedup key is of one message: the next one would be taken for that one, and be nowhere.
  await page.getByText("Send a message").press("Enter");
  await page.getByLabel("Dedup key").fill("cake");
  for (const body of ["one cake", "one tea"]) {
    await page.getByLabel("Body").fill(body);
    await page.getByRole("button", { name: "Send", exact: true }).press("Enter");
    await page.getByRole("cell", { name: body }).waitFor();
  }
  // What is there already keeps its options.
  await page.goto("/#/queues");
  await page.getByText("New queue").press("Enter");
  await page.getByLabel("Name").fill("made here");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "There is a queue made here already." }).waitFor();
  await page.goto("/#/queues/made%20here");
  await page.getByText("dead after 5 deliveries").waitFor();
  await page.getByRole("button", { name: "Delete queue" }).press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).press("Enter");
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();

  await tabTo(page, "Accounts");
  await page.getByRole("cell", { name: HOSTILE }).waitFor();
  await look(page, "queue-accounts-light");

  // A client is closed after a question.
  await page.getByRole("link", { name: "Clients" }).click();
  const unwanted = page.getByRole("button", { name: "Close <script>" });
  await unwanted.waitFor();
  await look(page, "queue-clients-light");
  // Whoever is at the button of one is not at that of another when the list is drawn anew.
  const twins = await page.getByRole("button", { name: /^Close twin/ }).evaluateAll((all) => all.map((one) => one.ariaLabel));
  seen.twins = new Set(twins).size;
  await unwanted.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).press("Enter");
  await page.getByText(/is closed\.$/).waitFor();
  await unwanted.waitFor({ state: "detached" });

  await page.getByRole("link", { name: "Store" }).click();
  await page.getByText("accepts changes").waitFor();
  await look(page, "queue-store-light");

  // An address that somebody has typed.
  const described = page.waitForRequest(/\/v1\/queues\/100%25$/);
  await page.goto("/#/queues/100%");
  await page.getByRole("heading", { name: "100%", level: 1 }).waitFor();
  await page.getByRole("alert").filter({ hasText: "NOQUEUE" }).waitFor();
  await described;
  seen.errors = seen.errors.filter((error) => !error.includes("404"));
  await page.goto("/");

  seen.whatIf = await askWhatIf(page, look, "queue");

  await lookAtAll(open, look, "queue", [["/", "Overview"], ["/#/queues", "Queues"], ["/#/queues/queue-042", "queue-042"],
    ["/#/accounts", "Accounts"], ["/#/clients", "Clients"], ["/#/store", "Store"]]);
});

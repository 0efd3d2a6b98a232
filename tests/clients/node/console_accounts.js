// Uses the console of a queue tier that keeps accounts, in a browser that has logged in as alice.

import { WIDE, withConsole } from "./browser.js";

await withConsole(async ({ open, look, seen }) => {
  const page = await open({ ...WIDE, httpCredentials: { username: "alice", password: "wonderland" } });
  await page.clock.install();
  await page.goto("/#/queues/letters");
  await page.getByText("Send a message").click();
  await page.getByLabel("Body").fill("from the console");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText(/^Sent as message/).waitFor();
  seen.from = await page.getByRole("row").filter({ hasText: "from the console" }).locator("td.name").first().textContent();
  seen.errors = seen.errors.filter((error) => !error.includes("401")); // before the browser has shown who it is
  await look(page, "queue-accounts-closed");

  // Who answers a question is afterwards where they were, however long they think about it.
  await page.getByRole("link", { name: "Clients" }).click();
  const close = page.getByRole("button", { name: /^Close / }).first();
  await close.press("Enter");
  await page.getByRole("dialog").waitFor();
  seen.renewed = 0;
  page.on("request", (request) => { seen.renewed += request.url().includes("/v1/clients") ? 1 : 0; });
  await page.clock.runFor(10_000);
  await page.keyboard.press("Escape");
  page.removeAllListeners("request");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  seen.isBack = await close.evaluate((element) => element === document.activeElement);

  // The account is taken away: that is said, and nothing more is asked, for the browser would ask for another each time.
  const refusal = { status: 401, json: { error: "NOACCOUNT", message: "unknown account or wrong secret" } };
  let asked = 0;
  await page.route("**/v1/**", (route) => {
    asked += 1;
    return route.fulfill(refusal);
  });
  await page.getByRole("status").filter({ hasText: "Not logged in (unknown account or wrong secret)" }).waitFor();
  const before = asked;
  await page.clock.runFor(60_000);
  seen.askedAgain = asked - before;
  seen.errors = seen.errors.filter((error) => !error.includes("401"));
});

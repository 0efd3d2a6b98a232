// Uses the console of a queue tier that keeps accounts, in a browser that has logged in as alice.

import { WIDE, withConsole } from "./browser.js";

await withConsole(async ({ open, look, seen }) => {
  const page = await open({ ...WIDE, httpCredentials: { username: "alice", password: "wonderland" } });
  await page.goto("/#/queues/letters");
  await page.getByText("Send a message").click();
  await page.getByLabel("Body").fill("from the console");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText(/^Sent as message/).waitFor();
  seen.from = await page.getByRole("row").filter({ hasText: "from the console" }).locator("td.name").first().textContent();
  seen.errors = seen.errors.filter((error) => !error.includes("401")); // before the browser has shown who it is
  await look(page, "queue-accounts-closed");
});

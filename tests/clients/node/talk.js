// A short conversation with a queue tier, as a Node.js program would have it.
// Takes ioredis options as JSON, prints what it was answered as JSON.

import { once } from "node:events";
import Redis from "ioredis";

const options = JSON.parse(process.argv[2]);
const tier = new Redis(options);
const answers = {};

await once(tier, "ready");
answers.ready = true;

answers.queue = await tier.call("QCREATE", "orders");
answers.sent = await tier.call("SEND", "orders", "two coffees");
answers.message = await tier.call("POP", "QUEUE", "orders", "LEASE", 60000);
answers.acknowledged = await tier.call("ACK", 1);
answers.nothing = await tier.call("POP", "QUEUE", "orders");

const pipeline = tier.pipeline();
for (let number = 0; number < 100; number += 1) pipeline.call("SEND", "orders", number);
answers.pipelined = (await pipeline.exec()).map(([error, id]) => error ?? id);
await tier.call("QPURGE", "orders");

answers.refused = await tier.call("PEEK", "QUEUE", "nowhere").catch((error) => error.message);

const other = tier.duplicate();
const awaited = other.call("POP", "QUEUE", "orders", "BLOCK", 20000);
await tier.call("SEND", "orders", "from the other connection");
answers.awaited = await awaited;

await Promise.all([tier.quit(), other.quit()]);
console.log(JSON.stringify(answers));

// The same conversation by node-redis. Takes its options as JSON, prints what it was answered as JSON.

import { createClient } from "redis";

const tier = createClient(JSON.parse(process.argv[2]));
tier.on("error", (error) => console.error(error.message));
await tier.connect();
const ask = (...words) => tier.sendCommand(words.map(String));
const answers = { ready: tier.isReady };

answers.queue = await ask("QCREATE", "orders");
answers.sent = await ask("SEND", "orders", "two coffees");
answers.message = await ask("POP", "QUEUE", "orders", "LEASE", 60000);
answers.acknowledged = await ask("ACK", 1);
answers.nothing = await ask("POP", "QUEUE", "orders");

// What is sent without waiting for answers goes as a pipeline.
answers.pipelined = await Promise.all(Array.from({ length: 100 }, (_, number) => ask("SEND", "orders", number)));
await ask("QPURGE", "orders");

answers.refused = await ask("PEEK", "QUEUE", "nowhere").catch((error) => error.message);

const other = await tier.duplicate().connect();
const awaited = other.sendCommand(["POP", "QUEUE", "orders", "BLOCK", "20000"]);
await ask("SEND", "orders", "from the other connection");
answers.awaited = await awaited;

await Promise.all([tier.close(), other.close()]);
console.log(JSON.stringify(answers));

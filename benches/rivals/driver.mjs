// Drives graphile-worker for `cargo xtask bench rivals`: node driver.mjs COMMAND [ARGUMENT...]
//
// DATABASE_URL names the database. Every command prints lines of JSON.

import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

const KINDS = Array.from({ length: 10 }, (_, number) => `kind-${number}`);
// The size of a bucket of the timeline in milliseconds.
const BUCKET = 10;

// The configuration of https://worker.graphile.org/docs/performance.
const CONCURRENCY = 24;
const worker = {
  concurrentJobs: CONCURRENCY,
  maxPoolSize: CONCURRENCY + 1,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
// Writing a line per job would slow it down.
const logger = new Logger(() => () => {});

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

// A monotonic clock that all processes of the machine share, in milliseconds.
const now = () => Number(process.hrtime.bigint()) / 1e6;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function pool(max) {
  const crash = (error) => {
    console.error(`a connection failed: ${error.message}`);
    process.exit(1);
  };
  const connections = new pg.Pool({ connectionString: process.env.DATABASE_URL, max });
  connections.on("error", crash);
  connections.on("connect", (client) => client.on("error", crash));
  return connections;
}

const payload = (id) => ({ id, pad: "x".repeat(100) });

// A hundred jobs of each kind in turn, as redrive gets them.
const spec = (id) => ({ identifier: KINDS[Math.floor(id / 100) % KINDS.length], payload: payload(id) });

// Adds jobs, many per call, on one connection.
async function bulk(jobs, perCall) {
  const pgPool = pool(1);
  const utils = await makeWorkerUtils({ pgPool, logger });
  const calls = [];
  for (let from = 0; from < jobs; from += perCall) {
    calls.push(Array.from({ length: Math.min(perCall, jobs - from) }, (_, place) => spec(from + place)));
  }
  const start = performance.now();
  for (const call of calls) {
    await utils.addJobs(call);
  }
  say({ seconds: (performance.now() - start) / 1000 });
  await utils.release();
  await pgPool.end();
}

// Adds single jobs on several connections.
async function single(jobs, connections) {
  const pgPool = pool(connections);
  const utils = await makeWorkerUtils({ pgPool, logger });
  const add = (each) =>
    Promise.all(
      Array.from({ length: connections }, async () => {
        for (let number = 0; number < each; number += 1) {
          await utils.addJob("kind-0", payload(1));
        }
      }),
    );
  // Opens the connections and prepares the statements.
  await add(10);
  await pgPool.query("TRUNCATE graphile_worker._private_jobs");
  await pgPool.query("CHECKPOINT");
  const start = performance.now();
  await add(jobs / connections);
  say({ seconds: (performance.now() - start) / 1000 });
  await utils.release();
  await pgPool.end();
}

// Adds one job at a time to an idle worker of this process. Prints the milliseconds from the return
// of each call to the start of the handler.
async function wakeup(jobs, every) {
  const started = new Map();
  const start = (given) => started.get(given.id)?.(performance.now());
  const workerPool = pool(CONCURRENCY + 1);
  const runner = await run({
    preset: { worker },
    pgPool: workerPool,
    logger,
    noHandleSignals: true,
    taskList: { "kind-0": start },
  });
  const pgPool = pool(1);
  const utils = await makeWorkerUtils({ pgPool, logger });
  const one = async (id) => {
    const called = performance.now();
    const began = new Promise((resolve) => started.set(id, resolve));
    await utils.addJob("kind-0", payload(id));
    const returned = performance.now();
    const wait = (await began) - returned;
    started.delete(id);
    await pause(Math.max(0, every - (performance.now() - called)));
    return wait;
  };
  // Opens the connections and prepares the statements.
  for (let id = 0; id < 20; id += 1) {
    await one(id);
  }
  const waits = [];
  for (let id = 20; id < jobs + 20; id += 1) {
    waits.push(await one(id));
  }
  say({ waits });
  await utils.release();
  await runner.stop();
  await Promise.all([pgPool.end(), workerPool.end()]);
}

// Works until `stop` arrives. Standard input: `go EPOCH`, `count`, `stop`. Each job fails in its first
// `attempts` - 1 attempts. EPOCH is the time on the shared clock from which the report counts.
async function work(attempts) {
  const busy = new Set();
  let [ran, first, settled, epoch, runner] = [0, null, 0, 0, null];
  const mark = (at) => busy.add(Math.max(0, Math.floor(at / BUCKET)));
  const handle = (given, helpers) => {
    const at = now() - epoch;
    first ??= at;
    ran += 1;
    mark(at);
    if (helpers.job.attempts < attempts) {
      throw new Error("not yet");
    }
  };
  const pgPool = pool(CONCURRENCY + 1);
  // Jobs are settled when these statements return; the events of the worker come earlier.
  pgPool.on("connect", (client) => {
    const query = client.query.bind(client);
    client.query = (...given) => {
      const asked = query(...given);
      if (/^(complete|fail)_job/.test(given[0]?.name ?? "")) {
        asked.then(() => {
          settled = now() - epoch;
          mark(settled);
        }, () => {});
      }
      return asked;
    };
  });
  const taskList = Object.fromEntries(KINDS.map((kind) => [kind, handle]));
  say({ ready: now() });
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, argument] = line.split(" ");
    if (command === "go") {
      epoch = Number(argument);
      runner = await run({ preset: { worker }, pgPool, logger, noHandleSignals: true, taskList });
    } else if (command === "count") {
      say({ ran });
    } else {
      break;
    }
  }
  await runner?.stop();
  say({ ran, first, settled, busy: [...busy] });
  await pgPool.end();
}

const commands = {
  migrate: async () => {
    const pgPool = pool(1);
    await runMigrations({ pgPool, logger });
    await pgPool.end();
    say({});
  },
  bulk,
  single,
  wakeup,
  work,
};
const [name, ...numbers] = process.argv.slice(2);
if (!Object.hasOwn(commands, name ?? "")) {
  console.error(`usage: node driver.mjs ${Object.keys(commands).join("|")} [NUMBER...]`);
  process.exit(2);
}
await commands[name](...numbers.map(Number));
process.exit(0);

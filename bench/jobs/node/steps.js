// The steps that every engine goes through, in the order in which the measurement takes ours through
// them. An engine is an object with:
//   prepare()            makes its tables and queue
//   bulk(first, count)   enqueues jobs {n} from `first` on, in one call
//   single(n)            enqueues one
//   drain(onJob)         starts whatever works off a backlog fastest; returns how to stop it
//   work(onJob)          starts its ordinary worker, for latency; returns how to stop it
//   unfinished()         how many jobs the database says are not done
//   close()
//   pickupsMax           if it takes its time for each
'use strict';

const { performance } = require('node:perf_hooks');

const BULK_CALLERS = 2;
const LOOK_EVERY_MS = 5;
const SPACING_MS = 10;
const DRAIN_MAX_MS = 900_000;

const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const perSecond = (count, ms) => (count * 1000) / ms;

function percentile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
}

async function bytesWritten(pool) {
  const { rows } = await pool.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS bytes");
  return rows[0].bytes;
}

async function bulk(engine, first, jobs, batch) {
  let next = first;
  const caller = async () => {
    while (next < first + jobs) {
      const from = next;
      next += batch;
      await engine.bulk(from, Math.min(batch, first + jobs - from));
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: BULK_CALLERS }, caller));
  return perSecond(jobs, performance.now() - began);
}

async function single(engine, jobs, callers) {
  const each = Math.ceil(jobs / callers);
  const began = performance.now();
  await Promise.all(Array.from({ length: callers }, async () => {
    for (let n = 0; n < each; n += 1) await engine.single(n);
  }));
  return { jobs: each * callers, rate: perSecond(each * callers, performance.now() - began) };
}

// The clock stops when the database shows that nothing is left, and it is looked at only when every
// handler has been called.
async function drain(engine, jobs) {
  let seen = 0;
  const began = performance.now();
  const stop = await engine.drain(() => { seen += 1; });
  while (seen < jobs || (await engine.unfinished()) > 0) {
    if (performance.now() - began > DRAIN_MAX_MS) throw new Error(`${seen} of ${jobs} jobs have run`);
    await rest(LOOK_EVERY_MS);
  }
  const took = performance.now() - began;
  await stop();
  return perSecond(jobs, took);
}

async function pickup(engine, jobs) {
  let started;
  const stop = await engine.work(() => started(performance.now()));
  await rest(1000);
  const latencies = [];
  for (let n = 0; n < jobs; n += 1) {
    await rest(SPACING_MS);
    const start = new Promise((resolve) => { started = resolve; });
    const called = performance.now();
    await engine.single(n);
    latencies.push((await start) - called);
  }
  await stop();
  return latencies;
}

async function speed(engine, pool, task) {
  await bulk(engine, 0, task.warm_up, task.batch);
  await drain(engine, task.warm_up);
  const singles = await single(engine, task.singles, task.callers);
  await drain(engine, singles.jobs);
  await pool.query('VACUUM ANALYZE');
  let before = await bytesWritten(pool);
  const enqueued = await bulk(engine, 0, task.jobs, task.batch);
  let bytes = (await bytesWritten(pool)) - before;
  await pool.query('VACUUM ANALYZE');
  before = await bytesWritten(pool);
  const drained = await drain(engine, task.jobs);
  bytes += (await bytesWritten(pool)) - before;
  await pool.query('VACUUM ANALYZE');
  const latencies = await pickup(engine, Math.min(task.pickups, engine.pickupsMax ?? task.pickups));
  return {
    bulk: enqueued,
    single: singles.rate,
    drain: drained,
    pickup_p50: percentile(latencies, 0.5),
    pickup_p99: percentile(latencies, 0.99),
    bytes: bytes / task.jobs,
  };
}

// Each job is due at its time and its latency counts from then, so that falling behind cannot be hidden.
async function steady(engine, pool, task) {
  const jobs = task.rate * task.secs;
  const late = [];
  let began = 0;
  const due = (n) => began + (n * 1000) / task.rate;
  const stop = await engine.work((n) => { late.push(performance.now() - due(n)); });
  await rest(1000);
  const before = await bytesWritten(pool);
  began = performance.now();
  await Promise.all(Array.from({ length: task.callers }, async (_, caller) => {
    for (let n = caller; n < jobs; n += task.callers) {
      const early = due(n) - performance.now();
      if (early > 0) await rest(early);
      await engine.single(n);
    }
  }));
  while (late.length < jobs || (await engine.unfinished()) > 0) {
    if (performance.now() - began > task.secs * 1000 + DRAIN_MAX_MS) throw new Error(`${late.length} have run`);
    await rest(LOOK_EVERY_MS);
  }
  const took = performance.now() - began;
  const bytes = (await bytesWritten(pool)) - before;
  await stop();
  return {
    done: perSecond(jobs, took),
    p50: percentile(late, 0.5),
    p99: percentile(late, 0.99),
    max: percentile(late, 1),
    bytes: bytes / jobs,
  };
}

// Runs what the only argument asks for, and prints what was seen as the last line.
async function main(makeEngine) {
  const { Pool } = require('pg');
  const task = JSON.parse(process.argv[2]);
  const pool = new Pool({ connectionString: task.database, max: 2 });
  const engine = makeEngine(task.database);
  await engine.prepare();
  const seen = await (task.rate ? steady : speed)(engine, pool, task);
  await engine.close();
  await pool.end();
  process.stdout.write(`\n${JSON.stringify(seen)}\n`);
}

module.exports = {
  run(makeEngine) {
    main(makeEngine).then(
      () => process.exit(0),
      (error) => {
        console.error(error);
        process.exit(1);
      },
    );
  },
};

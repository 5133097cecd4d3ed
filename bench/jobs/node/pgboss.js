// pg-boss: a backlog is worked off by fetching and completing a thousand at a time, which is the
// fastest that it offers; latency is that of its worker at its shortest interval.
'use strict';

const PgBoss = require('pg-boss');
const { Pool } = require('pg');
const steps = require('./steps.js');

const QUEUE = 'nothing';
const CONNECTIONS = 16;
const FETCHERS = 2;
const FETCH_JOBS = 1000;

steps.run((database) => {
  const pool = new Pool({ connectionString: database, max: 1 });
  const boss = new PgBoss({ connectionString: database, max: CONNECTIONS });
  boss.on('error', (error) => console.error(error));

  return {
    // At half a second each, as many as others make would take minutes.
    pickupsMax: 100,
    async prepare() {
      await boss.start();
      await boss.createQueue(QUEUE);
    },
    async bulk(first, count) {
      await boss.insert(Array.from({ length: count }, (_, n) => ({ name: QUEUE, data: { n: first + n } })));
    },
    single: (n) => boss.send(QUEUE, { n }),
    async drain(onJob) {
      let stopped = false;
      const fetcher = async () => {
        while (!stopped) {
          const jobs = await boss.fetch(QUEUE, { batchSize: FETCH_JOBS });
          if (!jobs || jobs.length === 0) {
            await new Promise((resolve) => setTimeout(resolve, 5));
            continue;
          }
          for (const job of jobs) onJob(job.data.n);
          await boss.complete(QUEUE, jobs.map((job) => job.id));
        }
      };
      const fetchers = Promise.all(Array.from({ length: FETCHERS }, fetcher));
      return async () => {
        stopped = true;
        await fetchers;
      };
    },
    async work(onJob) {
      const options = { pollingIntervalSeconds: 0.5, batchSize: FETCH_JOBS };
      await boss.work(QUEUE, options, async (jobs) => {
        for (const job of jobs) onJob(job.data.n);
      });
      return () => boss.offWork(QUEUE);
    },
    async unfinished() {
      const { rows } = await pool.query("SELECT count(*)::int AS jobs FROM pgboss.job WHERE state < 'completed'");
      return rows[0].jobs;
    },
    async close() {
      await boss.stop({ graceful: false, wait: true });
      await pool.end();
    },
  };
});

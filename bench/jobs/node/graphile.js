// graphile-worker, with the settings of its own page about performance.
'use strict';

const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { Pool } = require('pg');
const steps = require('./steps.js');

const TASK = 'nothing';
// Of the worker; whoever enqueues has others.
const CONNECTIONS = 25;
const CALLERS_CONNECTIONS = 16;
const quiet = new Logger(() => () => {});

steps.run((database) => {
  const open = (max) => {
    const pool = new Pool({ connectionString: database, max });
    pool.on('error', (error) => console.error(error));
    pool.on('connect', (client) => client.on('error', (error) => console.error(error)));
    return pool;
  };
  const [pool, callers] = [open(CONNECTIONS), open(CALLERS_CONNECTIONS)];
  let utils;

  const work = async (onJob) => {
    const runner = await run({
      pgPool: pool,
      logger: quiet,
      noHandleSignals: true,
      taskList: { [TASK]: async (payload) => onJob(payload.n) },
      preset: {
        worker: {
          concurrentJobs: 24,
          maxPoolSize: CONNECTIONS,
          localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
    return () => runner.stop();
  };

  return {
    async prepare() {
      utils = await makeWorkerUtils({ pgPool: callers, logger: quiet });
      await utils.migrate();
    },
    async bulk(first, count) {
      const jobs = Array.from({ length: count }, (_, n) => ({ identifier: TASK, payload: { n: first + n } }));
      await utils.addJobs(jobs);
    },
    single: (n) => utils.addJob(TASK, { n }),
    drain: work,
    work,
    async unfinished() {
      const { rows } = await callers.query('SELECT count(*)::int AS jobs FROM graphile_worker.jobs');
      return rows[0].jobs;
    },
    async close() {
      await utils.release();
      await Promise.all([pool.end(), callers.end()]);
    },
  };
});

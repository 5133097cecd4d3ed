// A worker that renders reports page by page, and stops in the middle when it is told to.
//
//     npm install && npm run build && node dist/examples/render.js http://127.0.0.1:8080 TOKEN

import { setTimeout as pause } from "node:timers/promises";

import { Fatal, Worker } from "../src/index.js";

const [url, token] = process.argv.slice(2);
if (url === undefined || token === undefined) throw new Error("usage: render URL TOKEN");
const worker = new Worker(url, token, {
  name: "example-typescript",
  leaseSecs: 5,
  waitSecs: 1,
  shutdownGraceSecs: 1,
});

worker.handle("reports.render", async (job, context) => {
  const { pages, page_ms } = job.payload as { pages?: number; page_ms?: number };
  if (typeof pages !== "number") throw new Fatal("pages is missing");
  for (let page = 0; page < pages; page++) {
    context.check();
    context.report({ page });
    // Stands for the work; ends at once when the job is stopped.
    await pause(page_ms ?? 10, undefined, { signal: context.signal });
  }
  return { pages, by: "typescript" };
});

await worker.run();

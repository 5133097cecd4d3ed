// Works off jobs of a Roundsman server. Needs nothing but Node itself.
//
//     const worker = new Worker("http://127.0.0.1:8080", token, { concurrency: 8 });
//     worker.handle("reports.render", async (job, context) => {
//       context.report({ percent: 50 });
//       await render(job.payload, { signal: context.signal });
//       return { done: true };
//     });
//     await worker.run();                       // until SIGTERM or SIGINT

export { Failure, Fatal, Stopped } from "./failure.js";
export { Context, type Handler, type Job, type Json, type StopReason } from "./job.js";
export { Worker, type WorkerOptions } from "./worker.js";

// The worker: claims as much as it has room for, keeps leases in the background, ends in order.

import { hostname } from "node:os";

import { Api, LeaseLost, Refused, Unanswered } from "./api.js";
import { Failure } from "./failure.js";
import { Context, type Handler, type Job, type StopReason } from "./job.js";

const LEASE_SECS = { min: 5, max: 3600 };
const PATIENCE_MS = { first: 200, most: 10_000 };

export interface WorkerOptions {
  /** What the server shows as holder of the leases. */
  name?: string;
  /** How many jobs are worked on at once. */
  concurrency?: number;
  /** How long a job is lost for if this worker dies. */
  leaseSecs?: number;
  /** How long a claim waits at the server if there is nothing to do. */
  waitSecs?: number;
  /** How long a handler that was told to stop may take. */
  stopGraceSecs?: number;
  /** How long jobs may go on after the worker was told to end. */
  shutdownGraceSecs?: number;
  log?: (line: string) => void;
}

interface Held {
  job: Job;
  context: Context;
  /** By the monotonic clock, from before the request that made or extended the lease. */
  confirmedMs: number;
  ended: Promise<void>;
}

type Outcome = [verb: string, body: Record<string, unknown>];

/** Claims jobs, runs their handlers and tells the server how they ended. */
export class Worker {
  readonly #api: Api;
  readonly #options: Required<WorkerOptions>;
  readonly #handlers = new Map<string, Handler>();
  readonly #held = new Map<number, Held>();
  readonly #ending = new AbortController();
  #freed: () => void = () => {};

  constructor(url: string, token: string, options: WorkerOptions = {}) {
    this.#api = new Api(url, token);
    const leaseSecs = Math.max(LEASE_SECS.min, Math.min(LEASE_SECS.max, options.leaseSecs ?? 60));
    this.#options = {
      name: options.name ?? `node-${hostname()}-${process.pid}`,
      concurrency: Math.max(1, options.concurrency ?? 4),
      leaseSecs,
      waitSecs: options.waitSecs ?? 10,
      // Nothing keeps a lease while its handler is being stopped.
      stopGraceSecs: Math.min(options.stopGraceSecs ?? 5, leaseSecs / 3),
      shutdownGraceSecs: options.shutdownGraceSecs ?? 20,
      log: options.log ?? ((line) => console.error(line)),
    };
  }

  handle(kind: string, handler: Handler): this {
    this.#handlers.set(kind, handler);
    return this;
  }

  /** Lets `run` return. */
  stop(): void {
    this.#ending.abort();
  }

  /** Works until `stop`, SIGTERM or SIGINT; then lets jobs finish and hands back those that do not. */
  async run(): Promise<void> {
    const stop = () => this.stop();
    process.on("SIGTERM", stop).on("SIGINT", stop);
    const keeper = setInterval(() => this.#keep(), (this.#options.leaseSecs / 3) * 1000);
    try {
      await this.#claimUntilEnding();
      await this.#drain();
    } finally {
      clearInterval(keeper);
      process.off("SIGTERM", stop).off("SIGINT", stop);
    }
  }

  async #claimUntilEnding(): Promise<void> {
    const { name, concurrency, leaseSecs, waitSecs, log } = this.#options;
    let patienceMs = PATIENCE_MS.first;
    while (!this.#ending.signal.aborted) {
      const room = concurrency - this.#held.size;
      if (room === 0) {
        await this.#room();
        continue;
      }
      const began = performance.now();
      const kinds = [...this.#handlers.keys()];
      const wish = { worker: name, kinds, max: room, lease_secs: leaseSecs, wait_secs: waitSecs };
      try {
        // Not given up when the worker has to end: what is given to nobody is only given again when
        // its lease is over.
        for (const job of await this.#api.claim(wish)) this.#begin(job, began);
        patienceMs = PATIENCE_MS.first;
      } catch (error) {
        log(`cannot claim: ${error}`);
        await pause(patienceMs, this.#ending.signal);
        patienceMs = Math.min(patienceMs * 2, PATIENCE_MS.most);
      }
    }
  }

  /** Returns when a job has ended, or the worker has to. */
  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#freed = resolve;
      this.#ending.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #begin(job: Job, confirmedMs: number): void {
    const held: Held = { job, context: new Context(), confirmedMs, ended: Promise.resolve() };
    this.#held.set(job.id, held);
    held.ended = this.#work(held).finally(() => {
      this.#held.delete(job.id);
      this.#freed();
    });
  }

  async #work(held: Held): Promise<void> {
    // What came after the worker was told to end is handed back.
    const isLate = this.#ending.signal.aborted;
    const stopped = new Promise<Outcome>((resolve) => {
      const stop = () => pause(this.#options.stopGraceSecs * 1000).then(() => resolve(ending(held)));
      held.context.signal.addEventListener("abort", stop, { once: true });
    });
    const outcome = isLate ? release : await Promise.race([this.#outcome(held), stopped]);
    if (held.context.stopReason !== "lease_lost") await this.#settle(held, ...outcome);
  }

  async #outcome(held: Held): Promise<Outcome> {
    const { job, context } = held;
    try {
      const result = await this.#handlers.get(job.kind)?.(job, context);
      return ["complete", { result: result ?? null }];
    } catch (error) {
      if (context.stopReason !== undefined) return ending(held);
      return ["fail", failed(error)];
    }
  }

  /** Says how the job ended until it is heard, or until the lease is over. */
  async #settle(held: Held, verb: string, body: Record<string, unknown>): Promise<void> {
    const { id, lease_no } = held.job;
    for (;;) {
      try {
        await this.#api.about(id, verb, { lease_no, ...body });
        return;
      } catch (error) {
        this.#options.log(`job ${id}, ${verb}: ${error}`);
        if (error instanceof LeaseLost) return;
        if (error instanceof Refused) {
          if (verb !== "complete") return;
          verb = "fail";
          body = { error: { code: "result_refused", message: error.message } };
        } else if (this.#isOver(held)) {
          return;
        } else {
          await pause(PATIENCE_MS.first);
        }
      }
    }
  }

  #keep(): void {
    for (const held of this.#held.values()) {
      if (held.context.stopReason !== "lease_lost") void this.#beat(held);
    }
  }

  async #beat(held: Held): Promise<void> {
    const { job, context } = held;
    const { leaseSecs } = this.#options;
    const sent = performance.now();
    const progress = context.takeProgress();
    const body = { lease_no: job.lease_no, lease_secs: leaseSecs, ...(progress !== undefined && { progress }) };
    try {
      const answer = await this.#api.about(job.id, "heartbeat", body, leaseSecs / 3);
      held.confirmedMs = sent;
      if ((answer as { cancel_requested: boolean }).cancel_requested) context.stop("cancelled");
    } catch (error) {
      // A job that has just been settled is not lost.
      if (!this.#held.has(job.id)) return;
      if (error instanceof LeaseLost) context.stop("lease_lost");
      else if (error instanceof Unanswered || error instanceof Refused) {
        this.#options.log(`a heartbeat of job ${job.id} was not answered: ${error}`);
        if (this.#isOver(held)) context.stop("lease_lost");
      } else throw error;
    }
  }

  #isOver(held: Held): boolean {
    return performance.now() - held.confirmedMs >= this.#options.leaseSecs * 1000;
  }

  async #drain(): Promise<void> {
    const all = () => Promise.all([...this.#held.values()].map((held) => held.ended));
    const patience = new AbortController();
    const isFree = await Promise.race([
      all().then(() => true),
      pause(this.#options.shutdownGraceSecs * 1000, patience.signal).then(() => false),
    ]);
    patience.abort();
    if (isFree) return;
    for (const held of this.#held.values()) held.context.stop("worker_ends");
    await all();
  }
}

const release: Outcome = ["release", {}];

/** What is said of a job whose handler was stopped. */
function ending(held: Held): Outcome {
  const reason: StopReason | undefined = held.context.stopReason;
  return reason === "cancelled" ? ["cancelled", {}] : release;
}

function failed(error: unknown): Record<string, unknown> {
  if (error instanceof Failure) {
    const { code, retryAfterSecs } = error.options;
    return {
      error: { message: error.message, ...(code !== undefined && { code }) },
      fatal: error.fatal,
      ...(retryAfterSecs !== undefined && { retry_after_secs: retryAfterSecs }),
    };
  }
  if (error instanceof Error) return { error: { code: error.name, message: error.message || error.name } };
  return { error: { message: String(error) } };
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

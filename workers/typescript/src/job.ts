// What a handler gets, and how it is told to stop.

import { Stopped } from "./failure.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Job {
  id: number;
  kind: string;
  key: string | null;
  payload: Json;
  attempt: number;
  max_attempts: number | null;
  /** The fencing token. Pass it on to whatever is written elsewhere for this job. */
  lease_no: number;
}

export type StopReason = "lease_lost" | "cancelled" | "worker_ends";

export type Handler = (job: Job, context: Context) => Promise<Json | void>;

/** A handler's connection to its worker. */
export class Context {
  readonly #abort = new AbortController();
  #progress: Json | undefined;
  #reason: StopReason | undefined;

  /** Aborted when the handler has to stop; give it to `fetch` and the like. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get stopReason(): StopReason | undefined {
    return this.#reason;
  }

  /** Keeps how far the work is; it is sent with the next heartbeat. */
  report(progress: Json): void {
    this.#progress = progress;
  }

  /** Throws when the handler has to stop. Call it between steps. */
  check(): void {
    if (this.#reason !== undefined) throw new Stopped(this.#reason);
  }

  /** For the worker. */
  stop(reason: StopReason): void {
    this.#reason ??= reason;
    this.#abort.abort(new Stopped(this.#reason));
  }

  /** For the worker. */
  takeProgress(): Json | undefined {
    const progress = this.#progress;
    this.#progress = undefined;
    return progress;
  }
}

// The requests of the worker protocol.

import type { Job, Json } from "./job.js";

const REQUEST_SECS_MAX = 15;

/** The job is somebody else's now, or over. */
export class LeaseLost extends Error {}
/** Sending it again will not help. */
export class Refused extends Error {}
/** It may have arrived or not; it may be sent again. */
export class Unanswered extends Error {}

export interface ClaimWish {
  worker: string;
  kinds: string[];
  max: number;
  lease_secs: number;
  wait_secs: number;
}

export class Api {
  readonly #base: string;
  readonly #token: string;

  constructor(url: string, token: string) {
    if (!/^https?:\/\//.test(url)) throw new TypeError(`${url} is not the address of a server`);
    this.#base = url.replace(/\/+$/, "");
    this.#token = token;
  }

  async claim(wish: ClaimWish): Promise<Job[]> {
    const answer = await this.#post("/jobs/claim", wish, wish.wait_secs + REQUEST_SECS_MAX);
    return (answer as { jobs: Job[] }).jobs;
  }

  about(id: number, verb: string, body: object, secsMax = REQUEST_SECS_MAX): Promise<unknown> {
    return this.#post(`/jobs/${id}/${verb}`, body, secsMax);
  }

  async #post(path: string, body: object, secsMax: number): Promise<unknown> {
    let answer: Response;
    let text: string;
    try {
      answer = await fetch(this.#base + path, {
        method: "POST",
        headers: { "content-type": "application/json", "x-api-key": this.#token },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(Math.ceil(secsMax * 1000)),
      });
      text = await answer.text();
    } catch (error) {
      throw new Unanswered(String(error));
    }
    if (!answer.ok) throw refusal(answer.status, text);
    return JSON.parse(text) as Json;
  }
}

function refusal(status: number, detail: string): Error {
  if ([404, 409, 410].includes(status)) return new LeaseLost(detail);
  if ([408, 429].includes(status) || status >= 500) return new Unanswered(String(status));
  return new Refused(`${status}: ${detail}`);
}

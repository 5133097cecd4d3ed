// What a handler throws.

export interface FailureOptions {
  /** A word by which failures are found. */
  code?: string;
  /** Not tried again before this has passed. */
  retryAfterSecs?: number;
}

/** The job could not be done; it is tried again while attempts are left. */
export class Failure extends Error {
  readonly fatal: boolean = false;
  constructor(message: string, readonly options: FailureOptions = {}) {
    super(message);
  }
}

/** The job itself is wrong: it is not tried again. */
export class Fatal extends Failure {
  override readonly fatal = true;
}

/** Whatever is done now is done for nothing. */
export class Stopped extends Error {}

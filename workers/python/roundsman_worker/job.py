"""What a handler gets, and how it is told to stop."""

import threading


class Failure(Exception):
    """The job could not be done; it is tried again while attempts are left."""

    fatal = False

    def __init__(self, message, *, code=None, retry_after_secs=None):
        super().__init__(message)
        self.code = code
        self.retry_after_secs = retry_after_secs


class Fatal(Failure):
    """The job itself is wrong: it is not tried again."""

    fatal = True


class Stopped(Exception):
    """Whatever is done now is done for nothing."""


class Job:
    """A job that was claimed. `lease_no` is the fencing token: pass it on to whatever is written
    elsewhere for this job."""

    def __init__(self, claimed, confirmed_at):
        self.id = claimed["id"]
        self.kind = claimed["kind"]
        self.key = claimed["key"]
        self.payload = claimed["payload"]
        self.attempt = claimed["attempt"]
        self.max_attempts = claimed["max_attempts"]
        self.lease_no = claimed["lease_no"]
        # Why the handler has to stop: "lease_lost", "cancelled" or "worker_ends".
        self.stop_reason = None
        self.stopped = threading.Event()
        self._progress = None
        self._lock = threading.Lock()
        # By the monotonic clock, from before the request that made or extended the lease.
        self.confirmed_at = confirmed_at

    def report(self, progress):
        """Keeps how far the work is; it is sent with the next heartbeat."""
        with self._lock:
            self._progress = progress

    def check(self):
        """Raises Stopped when the handler has to stop. Call it between steps."""
        if self.stopped.is_set():
            raise Stopped(self.stop_reason)

    def _stop(self, reason):
        with self._lock:
            if self.stop_reason is None:
                self.stop_reason = reason
        self.stopped.set()

    def _take_progress(self):
        with self._lock:
            progress, self._progress = self._progress, None
            return progress

"""The worker: claims as much as it has room for, keeps leases in the background, ends in order."""

import logging
import os
import signal
import socket
import threading
import time

from .api import Api, LeaseLost, Refused, Unanswered
from .job import Failure, Job, Stopped

log = logging.getLogger("roundsman_worker")

LEASE_SECS = (5, 3600)
PATIENCE_SECS = (0.2, 10.0)


class Worker:
    """Claims jobs, runs their handlers in threads and tells the server how they ended."""

    def __init__(
        self,
        url,
        token,
        *,
        name=None,
        concurrency=4,
        lease_secs=60,
        wait_secs=10,
        stop_grace_secs=5,
        shutdown_grace_secs=20,
    ):
        self._api = Api(url, token)
        self._name = name or f"python-{socket.gethostname()}-{os.getpid()}"
        self._handlers = {}
        self._room = threading.Semaphore(concurrency)
        self._concurrency = concurrency
        self._lease_secs = max(LEASE_SECS[0], min(LEASE_SECS[1], lease_secs))
        self._wait_secs = wait_secs
        # Nothing keeps a lease while its handler is being stopped.
        self._stop_grace_secs = min(stop_grace_secs, self._lease_secs / 3)
        self._shutdown_grace_secs = shutdown_grace_secs
        self._ending = threading.Event()
        self._over = threading.Event()
        self._held = {}
        self._lock = threading.Lock()

    def handler(self, kind):
        """Decorates the function that does jobs of a kind. It gets a Job and returns the result."""

        def register(function):
            self._handlers[kind] = function
            return function

        return register

    def stop(self):
        """Lets `run` return, from any thread or signal handler."""
        self._ending.set()

    def run(self):
        """Works until `stop`, SIGTERM or SIGINT; then lets jobs finish and hands back those that do not."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        keeper = threading.Thread(target=self._keep, name="leases", daemon=True)
        keeper.start()
        self._claim_until_ending()
        self._drain()
        self._over.set()
        keeper.join()

    # Claiming

    def _claim_until_ending(self):
        patience = PATIENCE_SECS[0]
        while not self._ending.is_set():
            places = self._places()
            if places == 0:
                continue
            began = time.monotonic()
            claimed = []
            try:
                claimed = self._api.claim(
                    self._name, sorted(self._handlers), places, self._lease_secs, self._wait_secs
                )
                patience = PATIENCE_SECS[0]
            except (Unanswered, Refused, LeaseLost) as error:
                log.warning("cannot claim: %s", error)
                self._ending.wait(patience)
                patience = min(patience * 2, PATIENCE_SECS[1])
            for _ in range(places - len(claimed)):
                self._room.release()
            for each in claimed:
                self._begin(Job(each, began))

    def _places(self):
        """Waits for room for one job, and takes what else is free."""
        if not self._room.acquire(timeout=0.1):
            return 0
        places = 1
        while places < self._concurrency and self._room.acquire(blocking=False):
            places += 1
        return places

    def _begin(self, job):
        with self._lock:
            self._held[job.id] = job
        threading.Thread(target=self._work, args=(job,), name=f"job-{job.id}", daemon=True).start()

    # One job

    def _work(self, job):
        try:
            # What came after the worker was told to end is handed back.
            verb, body = ("release", {}) if self._ending.is_set() else self._outcome(job)
            if job.stop_reason != "lease_lost":
                self._settle(job, verb, body)
        finally:
            with self._lock:
                self._held.pop(job.id, None)
            self._room.release()

    def _outcome(self, job):
        try:
            return "complete", {"result": self._handlers[job.kind](job)}
        except Stopped:
            return ("cancelled", {}) if job.stop_reason == "cancelled" else ("release", {})
        except Failure as failure:
            body = {"error": {"message": str(failure)}, "fatal": failure.fatal}
            if failure.code:
                body["error"]["code"] = failure.code
            if failure.retry_after_secs is not None:
                body["retry_after_secs"] = failure.retry_after_secs
            return "fail", body
        except Exception as error:  # Whatever a handler raises is the job's failure, not the worker's.
            log.exception("job %s failed", job.id)
            return "fail", {"error": {"code": type(error).__name__, "message": str(error) or repr(error)}}

    def _settle(self, job, verb, body):
        """Says how the job ended until it is heard, or until the lease is over."""
        while True:
            try:
                self._api.about(job.id, verb, {"lease_no": job.lease_no, **body})
                return
            except LeaseLost:
                log.warning("job %s is somebody else's now", job.id)
                return
            except Refused as error:
                log.error("the server refused how job %s ended: %s", job.id, error)
                if verb != "complete":
                    return
                verb = "fail"
                body = {"error": {"code": "result_refused", "message": str(error)}}
            except Unanswered as error:
                log.warning("the server does not answer: %s", error)
                if self._is_over(job):
                    return
                time.sleep(PATIENCE_SECS[0])

    # Leases

    def _keep(self):
        """Sends heartbeats for everything that is held, three in the time of a lease."""
        interval = self._lease_secs / 3
        while not self._over.wait(interval):
            with self._lock:
                held = list(self._held.values())
            for job in held:
                self._beat(job, interval)

    def _beat(self, job, interval):
        if job.stop_reason == "lease_lost":
            return
        sent, progress = time.monotonic(), job._take_progress()
        body = {"lease_no": job.lease_no, "lease_secs": self._lease_secs}
        if progress is not None:
            body["progress"] = progress
        try:
            answer = self._api.about(job.id, "heartbeat", body, interval)
            job.confirmed_at = sent
            if answer["cancel_requested"]:
                job._stop("cancelled")
        except LeaseLost:
            # A job that has just been settled is not lost.
            with self._lock:
                is_held = job.id in self._held
            if is_held:
                job._stop("lease_lost")
        except (Unanswered, Refused) as error:
            log.warning("a heartbeat of job %s was not answered: %s", job.id, error)
            if self._is_over(job):
                job._stop("lease_lost")

    def _is_over(self, job):
        return time.monotonic() - job.confirmed_at >= self._lease_secs

    # The end

    def _drain(self):
        if self._wait_until_free(self._shutdown_grace_secs):
            return
        with self._lock:
            left = list(self._held.values())
        for job in left:
            job._stop("worker_ends")
        if self._wait_until_free(self._stop_grace_secs):
            return
        # Threads cannot be ended: what goes on is handed back, and refused when it is done.
        with self._lock:
            left = list(self._held.values())
        for job in left:
            self._settle(job, "release", {})

    def _wait_until_free(self, secs_max):
        until = time.monotonic() + secs_max
        while self._held:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

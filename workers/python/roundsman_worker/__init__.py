"""Works off jobs of a Roundsman server. Needs nothing but Python itself.

    from roundsman_worker import Fatal, Worker

    worker = Worker("http://127.0.0.1:8080", token, concurrency=4)

    @worker.handler("reports.render")
    def render(job):
        for page in job.payload["pages"]:
            job.check()                       # raises Stopped when the work is for nothing
            job.report({"page": page})
        return {"pages": len(job.payload["pages"])}

    worker.run()                              # until SIGTERM or SIGINT
"""

from .job import Failure, Fatal, Job, Stopped
from .worker import Worker

__all__ = ["Failure", "Fatal", "Job", "Stopped", "Worker"]

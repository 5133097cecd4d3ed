"""A worker that renders reports page by page, and stops in the middle when it is told to.

    python examples/render.py http://127.0.0.1:8080 TOKEN
"""

import logging
import sys

from roundsman_worker import Fatal, Worker

logging.basicConfig(level=logging.INFO)
url, token = sys.argv[1:3]
worker = Worker(url, token, name="example-python", lease_secs=5, wait_secs=1, shutdown_grace_secs=1)


@worker.handler("reports.render")
def render(job):
    pages = job.payload.get("pages")
    if not isinstance(pages, int):
        raise Fatal("pages is missing")
    for page in range(pages):
        job.check()
        job.report({"page": page})
        # Stands for the work; ends at once when the job is stopped.
        job.stopped.wait(job.payload.get("page_ms", 10) / 1000)
    job.check()
    return {"pages": pages, "by": "python"}


worker.run()

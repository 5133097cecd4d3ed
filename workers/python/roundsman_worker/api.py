"""The requests of the worker protocol."""

import json
import urllib.error
import urllib.request

REQUEST_SECS_MAX = 15


class LeaseLost(Exception):
    """The job is somebody else's now, or over."""


class Refused(Exception):
    """Sending it again will not help."""


class Unanswered(Exception):
    """It may have arrived or not; it may be sent again."""


class Api:
    def __init__(self, url, token):
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not the address of a server")
        self._base = url.rstrip("/")
        self._token = token

    def claim(self, worker, kinds, jobs_max, lease_secs, wait_secs):
        wish = {
            "worker": worker,
            "kinds": kinds,
            "max": jobs_max,
            "lease_secs": lease_secs,
            "wait_secs": wait_secs,
        }
        return self._post("/jobs/claim", wish, wait_secs + REQUEST_SECS_MAX)["jobs"]

    def about(self, job_id, verb, body, secs_max=REQUEST_SECS_MAX):
        return self._post(f"/jobs/{job_id}/{verb}", body, secs_max)

    def _post(self, path, body, secs_max):
        request = urllib.request.Request(
            self._base + path,
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json", "x-api-key": self._token},
        )
        try:
            with urllib.request.urlopen(request, timeout=secs_max) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            detail = error.read(4096).decode(errors="replace")
            raise _refusal(error.code, detail) from None
        except (OSError, ValueError) as error:
            raise Unanswered(str(error)) from None


def _refusal(status, detail):
    if status in (404, 409, 410):
        return LeaseLost(detail)
    if status in (408, 429) or status >= 500:
        return Unanswered(f"{status}")
    return Refused(f"{status}: {detail}")

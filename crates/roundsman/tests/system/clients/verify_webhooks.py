"""Verifies requests with the published library for Standard Webhooks.

Reads {"secret": ..., "requests": [{"headers": {...}, "body": "..."}]} from standard input and prints
how many were verified. Any that is not ends the script with an error.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def main():
    given = json.load(sys.stdin)
    webhook = Webhook(given["secret"])
    for request in given["requests"]:
        body, headers = request["body"], request["headers"]
        assert webhook.verify(body, headers) == json.loads(body)
        for forged in [body + " ", body.replace("meeting", "meeting_", 1)]:
            expect_refusal(webhook, forged, headers)
        expect_refusal(webhook, body, {**headers, "webhook-id": "evt_of_somebody_else"})
    print(f"{len(given['requests'])} verified")


def expect_refusal(webhook, body, headers):
    """A library that takes anything would prove nothing."""
    try:
        webhook.verify(body, headers)
    except WebhookVerificationError:
        return
    raise AssertionError("a forged request was verified")


main()

"""A transcript read with the published vexa-client, and deleted with its meeting.

Reads {"base_url": ..., "api_key": ..., "meeting": ..., "meeting_id": ..., "texts": [...]} from
standard input.
"""

import json
import sys
import time

from vexa_client.vexa import VexaClient, VexaClientError

PLATFORM = "google_meet"
WAIT_SECS_MAX = 90


def main():
    given = json.load(sys.stdin)
    client = VexaClient(given["base_url"], api_key=given["api_key"])
    meeting = given["meeting"]
    for shown in (
        client.get_transcript(PLATFORM, meeting),
        client.get_transcript(PLATFORM, meeting, meeting_id=given["meeting_id"]),
    ):
        expect(shown["id"] == given["meeting_id"] and shown["status"] == "active", shown)
        check(shown, given["texts"])
    client.stop_bot(PLATFORM, meeting)

    def is_over():
        found = client.get_meeting_by_id(PLATFORM, meeting)
        return found if found["status"] == "completed" else None

    wait_for("completed", is_over)
    check(client.get_transcript(PLATFORM, meeting), given["texts"])
    said = client.delete_meeting(PLATFORM, meeting)
    expected = f"Meeting {PLATFORM}/{meeting} transcripts deleted and data anonymized"
    expect(said["message"] == expected, said)
    try:
        shown = client.get_transcript(PLATFORM, meeting)
    except VexaClientError as error:
        expect("HTTP Error 404 " in str(error), error)
    else:
        raise AssertionError(f"still there: {shown}")
    print("read and deleted")


def check(transcript, texts):
    """Every line is there in the order it was said, with the members that clients look for."""
    segments = transcript["segments"]
    expect([segment["text"] for segment in segments] == texts, segments)
    for segment in segments:
        expect(segment["start"] < segment["end"] and segment["language"] == "en", segment)
        expect(segment["absolute_start_time"] < segment["absolute_end_time"], segment)
        expect("speaker" in segment and "created_at" in segment, segment)


def expect(is_true, shown):
    if not is_true:
        raise AssertionError(f"not as expected: {shown}")


def wait_for(what, probe):
    deadline = time.monotonic() + WAIT_SECS_MAX
    while time.monotonic() < deadline:
        found = probe()
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")


main()

"""A whole life of a bot with the published vexa-client, and the mistakes its users make.

Reads {"base_url": ..., "admin_key": ..., "webhook_url": ...} from standard input.
"""

import json
import sys
import time

from vexa_client.vexa import VexaClient, VexaClientError

PLATFORM = "google_meet"
MEETING = "abc-defg-hij"
OTHER = "xyz-abcd-efg"
WAIT_SECS_MAX = 40


def main():
    given = json.load(sys.stdin)
    client = register(given)
    refuse_mistakes(given, client)
    live(client, given["webhook_url"])
    forget(client)
    print("a whole life")


def register(given):
    """The operator makes a user who may have one bot, and a key for them."""
    client = VexaClient(given["base_url"], admin_key=given["admin_key"])
    user = client.create_user_and_set_id("ada@example.org", name="Ada", max_concurrent_bots=1)
    expect(user["max_concurrent_bots"] == 1 and user["name"] == "Ada", user)
    expect(client.get_user_by_email("ada@example.org")["id"] == user["id"], user)
    expect([known["id"] for known in client.list_users()] == [user["id"]], "list of users")
    renamed = client.update_user(user["id"], name="Ada L.")
    expect(renamed["name"] == "Ada L.", renamed)
    token = client.create_token()
    expect(token["user_id"] == user["id"], token)
    client.set_api_key(token["token"])
    return client


def refuse_mistakes(given, client):
    stranger = VexaClient(given["base_url"], api_key="nobody", admin_key="nobody")
    expect_error(stranger.get_running_bots_status, 403, "Invalid API token")
    expect_error(stranger.get_meetings, 403, "Invalid API token")
    expect_error(stranger.list_users, 403, "Invalid or missing admin token.")
    expect_error(lambda: client.request_bot(PLATFORM, "ABC"), 422, "abc-defg-hij")
    expect_error(lambda: client.request_bot("webex", MEETING), 422, "platform")
    expect_error(lambda: client.request_bot(PLATFORM, MEETING, language="xx"), 422, "language code")
    expect_error(lambda: client.request_bot(PLATFORM, MEETING, passcode="12345678"), 422, "Passcode")
    expect_error(lambda: client.stop_bot(PLATFORM, MEETING), 404, "No meeting found to stop.")
    expect_error(
        lambda: client.update_bot_config(PLATFORM, MEETING, language="de"),
        404,
        f"No active meeting found for platform {PLATFORM} and meeting ID {MEETING}.",
    )
    expect(client.get_meetings() == [], "meetings before the first")


def live(client, webhook_url):
    user = client.set_webhook_url(webhook_url)
    expect(user["data"]["webhook_url"] == webhook_url, user)
    meeting = client.request_bot(PLATFORM, MEETING, bot_name="Notes", language="en", task="transcribe")
    expect(meeting["status"] in ("requested", "joining"), meeting)
    expect(meeting["native_meeting_id"] == MEETING, meeting)
    expect(meeting["constructed_meeting_url"] == f"https://meet.google.com/{MEETING}", meeting)
    expect_error(
        lambda: client.request_bot(PLATFORM, MEETING),
        409,
        "An active or requested meeting already exists for this platform and meeting ID. "
        f"Platform: {PLATFORM}, Native Meeting ID: {MEETING}",
    )
    expect_error(
        lambda: client.request_bot(PLATFORM, OTHER),
        403,
        "User has reached the maximum concurrent bot limit (1).",
    )
    expect_error(
        lambda: client.delete_meeting(PLATFORM, MEETING), 409, "Meeting not finalized; cannot delete"
    )

    def is_active():
        found = client.get_meeting_by_id(PLATFORM, MEETING)
        return found if found["status"] == "active" else None

    active = wait_for("active", is_active)
    expect(active["id"] == meeting["id"] and active["start_time"], active)
    [running] = client.get_running_bots_status()
    expect(running["native_meeting_id"] == MEETING and running["normalized_status"] == "Up", running)
    said = client.update_bot_config(PLATFORM, MEETING, language="de", task="translate")
    expect(said["message"] == "Reconfiguration request accepted and sent to the bot.", said)
    changed = client.update_meeting_data(PLATFORM, MEETING, name="Planning", participants=["Ada"])
    expect(changed["data"]["name"] == "Planning", changed)

    said = client.stop_bot(PLATFORM, MEETING)
    expect(said["message"] == "Stop request accepted and is being processed.", said)

    def is_over():
        found = client.get_meeting_by_id(PLATFORM, MEETING)
        return found if found["status"] == "completed" else None

    over = wait_for("completed", is_over)
    expect(over["end_time"] and over["data"]["completion_reason"] == "stopped", over)
    expect(VexaClient.get_meeting_participants(over) == ["Ada"], over)
    steps = [step["to"] for step in over["data"]["status_transition"]]
    expect(steps[-1] == "completed" and "active" in steps, steps)
    said = client.stop_bot(PLATFORM, MEETING)
    expect(said["message"] == "Meeting already completed.", said)
    wait_for("no bots", lambda: client.get_running_bots_status() == [] or None)


def forget(client):
    said = client.delete_meeting(PLATFORM, MEETING)
    expected = f"Meeting {PLATFORM}/{MEETING} transcripts deleted and data anonymized"
    expect(said["message"] == expected, said)
    [meeting] = client.get_meetings()
    expect(meeting["native_meeting_id"] is None and meeting["data"].get("redacted"), meeting)
    expect("name" not in meeting["data"] and meeting["status"] == "completed", meeting)
    expect_error(
        lambda: client.delete_meeting(PLATFORM, MEETING),
        404,
        f"Meeting not found for platform {PLATFORM} and ID {MEETING}",
    )


def expect(is_true, shown):
    if not is_true:
        raise AssertionError(f"not as expected: {shown}")


def expect_error(call, status, words):
    try:
        answer = call()
    except VexaClientError as error:
        text = str(error)
        expect(f"HTTP Error {status} " in text and words in text, text)
        return
    raise AssertionError(f"expected an error {status}, got {answer}")


def wait_for(what, probe):
    deadline = time.monotonic() + WAIT_SECS_MAX
    while time.monotonic() < deadline:
        found = probe()
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")


main()

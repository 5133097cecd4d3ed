"""A collector as one would write it with asyncio: for each message the operations in Redis that the
reference collector does (XREADGROUP, the session's start, the speaker's events and HGET for each
segment, MULTI with SADD, HSET and EXPIRE, PUBLISH, XACK), and nothing else. It has no database, no
filter and no dead letters, which is to its advantage.

usage: peer.py REDIS_URL     (ADMIN_TOKEN in the environment is what tokens are signed with)
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import sys
import time
from datetime import datetime, timedelta, timezone

import redis.asyncio as redis

STREAM, GROUP, CONSUMER = "transcription_segments", "collector_group", "peer"
READ_COUNT, BLOCK_MS = 10, 2000
SEGMENT_TTL, SESSION_TTL = 3600, 7200
SPEAKER_SLACK_MS = 500
SECRET = os.environ["ADMIN_TOKEN"].encode()


def claims_of(token):
    header, claims, given = token.split(".")
    signed = hmac.new(SECRET, f"{header}.{claims}".encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(signed, decoded(given)):
        raise ValueError("the token proves nothing")
    claims = json.loads(decoded(claims))
    if claims["exp"] < time.time() or claims["scope"] != "transcribe:write":
        raise ValueError("the token is of no use")
    return claims


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def speaker_of(events, start_ms, end_ms):
    """Whoever spoke longest within the segment."""
    if not events:
        return None, "NO_SPEAKER_EVENTS"
    begun, overlaps = {}, {}
    for member, at in events:
        event = json.loads(member)
        name = event["participant_name"]
        if event["event_type"] == "SPEAKER_START":
            begun[name] = at
        elif name in begun:
            overlaps[name] = min(at, end_ms) - max(begun.pop(name), start_ms)
    for name, at in begun.items():
        overlaps[name] = end_ms - max(at, start_ms)
    speaking = {name: overlap for name, overlap in overlaps.items() if overlap > 0}
    if not speaking:
        return None, "UNKNOWN"
    status = "MAPPED" if len(speaking) == 1 else "MULTIPLE_CONCURRENT_SPEAKERS"
    return max(speaking, key=speaking.get), status


COMPARED = ("text", "speaker", "language", "end_time", "absolute_start_time", "absolute_end_time")


async def take_segments(client, meeting_id, message):
    uid = message["uid"]
    began = await client.get(f"meeting_session:{uid}:start")
    began = datetime.fromisoformat(began) if began else None
    key, changed = f"meeting:{meeting_id}:segments", {}
    for told in message["segments"]:
        start, end = float(told["start"]), float(told["end"])
        if end - start < 0.001:
            continue
        start_ms, end_ms = start * 1000, end * 1000
        events = await client.zrangebyscore(
            f"speaker_events:{uid}", 0, end_ms + SPEAKER_SLACK_MS, withscores=True
        )
        speaker, status = speaker_of(events, start_ms, end_ms)
        segment = {
            "text": told["text"],
            "end_time": round(end, 3),
            "language": told.get("language"),
            "speaker": speaker,
            "session_uid": uid,
            "speaker_mapping_status": status,
            "absolute_start_time": began and (began + timedelta(seconds=start)).isoformat(),
            "absolute_end_time": began and (began + timedelta(seconds=end)).isoformat(),
        }
        field = f"{start:.3f}"
        stored = await client.hget(key, field)
        if stored is not None:
            stored = json.loads(stored)
            if all(stored.get(name) == segment[name] for name in COMPARED):
                continue
        changed[field] = (start, segment)
    if not changed:
        return
    now = datetime.now(timezone.utc).isoformat()
    async with client.pipeline(transaction=True) as pipeline:
        pipeline.sadd("active_meetings", meeting_id)
        pipeline.hset(
            key,
            mapping={
                field: json.dumps({**segment, "updated_at": now})
                for field, (_, segment) in changed.items()
            },
        )
        pipeline.expire(key, SEGMENT_TTL)
        await pipeline.execute()
    segments = [{"start": start, **segment} for start, segment in changed.values()]
    frame = {
        "type": "transcript.mutable",
        "meeting": {"id": meeting_id},
        "payload": {"segments": segments},
        "ts": now,
    }
    await client.publish(f"tc:meeting:{meeting_id}:mutable", json.dumps(frame))


async def take(client, payload):
    message = json.loads(payload)
    meeting_id = claims_of(message["token"])["meeting_id"]
    if message["type"] == "session_start":
        start = message["start_timestamp"].replace("Z", "+00:00")
        await client.set(f"meeting_session:{message['uid']}:start", start, ex=SESSION_TTL)
    elif message["type"] == "transcription":
        await take_segments(client, meeting_id, message)


async def main():
    client = redis.from_url(sys.argv[1], decode_responses=True)
    try:
        await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
    while True:
        read = await client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=READ_COUNT, block=BLOCK_MS)
        # Protocol 3 answers with a map, protocol 2 with pairs.
        batches = read.values() if isinstance(read, dict) else [entries for _, entries in read]
        for entries in batches:
            if entries and isinstance(entries[0], list):
                entries = entries[0]
            for _, fields in entries:
                await take(client, fields["payload"])
            if entries:
                await client.xack(STREAM, GROUP, *[entry for entry, _ in entries])


asyncio.run(main())

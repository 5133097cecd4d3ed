"""An endpoint for Daily's webhooks as one would write it with FastAPI and Celery, and the worker of its
tasks: the signature over the raw bytes, the age of the timestamp, the event's id and a flag for its
room in Redis (SET NX, both in one round trip), and a task. The task takes the flag and the room's lock
and does nothing else: it asks no provider and has no database, which is to its advantage.

usage: uvicorn peer:app, and beside it celery --app peer:tasks worker. In the environment: REDIS_URL,
WEBHOOK_SECRET (base64), and TASKS: `each` makes a task for each event, as the reference does;
`once` makes none while the flag of the room is set.
"""

import base64
import hashlib
import hmac
import json
import os
import time

import redis
import redis.asyncio
from celery import Celery
from fastapi import FastAPI, HTTPException, Request

URL = os.environ["REDIS_URL"]
SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"])
EACH = os.environ["TASKS"] == "each"
WINDOW_SECS, FLAG_SECS, LOCK_SECS = 3600, 3600, 120

app = FastAPI(openapi_url=None)
events = redis.asyncio.from_url(URL)
locks = redis.from_url(URL)
tasks = Celery("peer", broker=URL)
tasks.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)


@tasks.task(name="poll_daily_room_presence")
def poll_daily_room_presence(room):
    if locks.getdel(f"meeting_poll_requested:{room}") is None:
        return
    lock = f"meeting_presence_poll:{room}"
    if locks.set(lock, 1, nx=True, ex=LOCK_SECS):
        locks.delete(lock)


def is_believed(body, timestamp, signature):
    if not timestamp or not signature:
        return False
    signed = hmac.new(SECRET, timestamp.encode() + b"." + body, hashlib.sha256).digest()
    if not hmac.compare_digest(base64.b64encode(signed), signature.encode()):
        return False
    return abs(time.time() - int(timestamp) / 1000) <= WINDOW_SECS


@app.get("/healthz")
async def healthz():
    return {"status": "ok"}


@app.post("/webhooks/daily")
async def webhook(request: Request):
    body = await request.body()
    headers = request.headers
    if not is_believed(body, headers.get("x-webhook-timestamp"), headers.get("x-webhook-signature")):
        raise HTTPException(401, "Invalid webhook signature")
    event = json.loads(body)
    if event["type"] in ("participant.joined", "participant.left"):
        room = event["payload"]["room"]
        pipeline = events.pipeline(transaction=False)
        pipeline.set(f"daily_event:{event['id']}", 1, nx=True, ex=WINDOW_SECS)
        pipeline.set(f"meeting_poll_requested:{room}", 1, nx=True, ex=FLAG_SECS)
        is_new, is_first = await pipeline.execute()
        if is_new and (EACH or is_first):
            poll_daily_room_presence.delay(room)
    return {"status": "ok"}

"""Stands in for a bot of Vexa that is used unchanged: what it knows and does not know of its server
is what such a bot does.

It reads BOT_CONFIG, reports to botManagerCallbackUrl with the last word replaced, takes an answer
for success only if its "status" is a word it knows, and leaves when told so over Redis on the
channel of its meeting. A bot called "scenario:fails" cannot join.
"""

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from urllib.parse import urlparse

ACCEPTED = ("processed", "ok", "container_updated")
TRIES_MAX = 3


def main():
    config = json.loads(os.environ["BOT_CONFIG"])
    for key in ("meeting_id", "platform", "token", "connectionId", "redisUrl", "automaticLeave"):
        if config.get(key) is None:
            sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: leave(config, "signal_sigterm", 143))
    commands = subscribe(config)
    report(config, "joining")
    if config["botName"] == "scenario:fails":
        report(config, "failed", reason="join_meeting_error", exit_code=1)
        sys.exit(1)
    report(config, "awaiting_admission")
    report(config, "active")
    for command in commands:
        if command.get("meeting_id") == config["meeting_id"] and command["action"] == "leave":
            leave(config, "self_initiated_leave", 0)


def leave(config, reason, code):
    report(config, "stopping", reason=reason)
    status = "completed" if code == 0 else "failed"
    report(config, status, reason=reason, exit_code=code, completion_reason="stopped")
    sys.exit(code)


def report(config, status, **more):
    """Three tries, as such bots do; then it goes on without having been heard."""
    url = config["botManagerCallbackUrl"].replace("/exited", "/status_change")
    body = {
        "connection_id": config["connectionId"],
        "container_id": config["container_name"],
        "status": status,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **more,
    }
    headers = {"Content-Type": "application/json"}
    for attempt in range(TRIES_MAX):
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                if json.load(answer).get("status") in ACCEPTED:
                    return
        except OSError as error:
            print(f"{status} was not taken: {error}", file=sys.stderr)
        time.sleep(attempt + 1)


def subscribe(config):
    """Commands, as they are published. Subscribed before it returns, so that none is missed."""
    address = urlparse(config["redisUrl"])
    connection = socket.create_connection((address.hostname, address.port or 6379))
    stream = connection.makefile("rb")
    if address.password:
        send(connection, "AUTH", address.username or "default", address.password)
        read(stream)
    send(connection, "SUBSCRIBE", f"bot_commands:meeting:{config['meeting_id']}")
    read(stream)
    return messages(stream)


def messages(stream):
    while True:
        kind, _, payload = read(stream)
        if kind == b"message":
            yield json.loads(payload)


def send(connection, *words):
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    connection.sendall(b"".join(parts))


def read(stream):
    """One value of Redis's protocol."""
    line = stream.readline()
    if not line:
        sys.exit("Redis has closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"*":
        return [read(stream) for _ in range(int(rest))]
    if kind == b"$":
        return stream.read(int(rest) + 2)[:-2]
    if kind == b"-":
        sys.exit(rest.decode())
    return int(rest) if kind == b":" else rest


main()

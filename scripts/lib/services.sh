# shellcheck shell=bash
# Starts a private PostgreSQL and a private Redis for one run, and ends them with it.
#
# Invariants: everything of a run lives in one temporary folder; nothing listens beyond loopback;
# whatever ends the run, even kill -9, the reaper stops its servers and removes the folder.
# Sourced, not run. Needs install.sh.

readonly START_TRIES_MAX=10
readonly READY_SECS_MAX=60
# Below the range from which the kernel takes outgoing ports, so that no client sits on ours.
readonly PORT_FIRST=20000
readonly PORT_COUNT=12000

# Starts both servers and exports where they are. Sets RUN_DIR.
start_services() {
    POSTGRES_BIN=$(find_postgres_bin) || die "initdb not found"
    # Short, because Podman takes no folder of more than 50 characters for what it runs.
    RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/roundsman.XXXXXX")
    # Folders that the postgres user must be able to reach; tests put their own clusters in tmp.
    chmod 755 "$RUN_DIR"
    mkdir -m 1777 "$RUN_DIR/tmp"
    mkdir -m 755 "$RUN_DIR/redis"
    start_reaper
    start_postgres
    start_redis
    export ROUNDSMAN_TEST_POSTGRES_URL="postgres://roundsman@127.0.0.1:$POSTGRES_PORT/postgres"
    export ROUNDSMAN_TEST_REDIS_URL="redis://127.0.0.1:$REDIS_PORT/"
    export ROUNDSMAN_TEST_POSTGRES_BIN="$POSTGRES_BIN"
}

# Stops everything of this run and waits until it is gone. Harmless when nothing was started.
stop_services() {
    [[ -n ${REAPER_PID:-} ]] || return 0
    echo 'the run is over' >&"$LIFELINE" || true
    wait "$REAPER_PID" 2>/dev/null || true
    REAPER_PID=
}

# The reaper holds the other end of a pipe: a line, or the end of this process by any means, wakes
# it. Its own session keeps signals that are meant for this script's group away from it.
start_reaper() {
    exec {LIFELINE}> >(exec setsid "$SCRIPTS_DIR/lib/reaper" "$RUN_DIR" >/dev/null 2>&1)
    REAPER_PID=$!
}

start_postgres() {
    local data="$RUN_DIR/postgres" log="$RUN_DIR/postgres.log"
    install -d -m 700 "$data"
    : >"$log"
    ((EUID != 0)) || chown postgres: "$data" "$log"
    as_postgres test -x "$data" || die "the user postgres cannot reach $RUN_DIR; set TMPDIR to a public folder"
    as_postgres "$POSTGRES_BIN/initdb" -D "$data" -U roundsman --auth=trust --no-sync --no-instructions \
        --encoding=UTF8 --locale=C.UTF-8 >"$RUN_DIR/initdb.log" 2>&1 || die_with_log "initdb failed" "$RUN_DIR/initdb.log"
    write_postgres_settings >>"$data/postgresql.conf"

    local try
    for ((try = 1; try <= START_TRIES_MAX; try++)); do
        POSTGRES_PORT=$(free_port)
        if as_postgres "$POSTGRES_BIN/pg_ctl" start --silent --wait -t "$READY_SECS_MAX" -D "$data" -l "$log" \
            -o "-p $POSTGRES_PORT" >/dev/null 2>&1; then
            return 0
        fi
        # Anything but a port that somebody took in the meantime would fail again.
        tail -n 5 "$log" | grep -q 'Address already in use' || break
    done
    die_with_log "PostgreSQL did not start" "$log"
}

# The suites that prove durability start a cluster of their own; here speed is what counts.
write_postgres_settings() {
    cat <<SETTINGS
listen_addresses = '127.0.0.1'
unix_socket_directories = '$RUN_DIR/postgres'
max_connections = 300
fsync = off
full_page_writes = off
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
timezone = 'UTC'
log_timezone = 'UTC'
SETTINGS
}

start_redis() {
    local try waited log="$RUN_DIR/redis.log"
    for ((try = 1; try <= START_TRIES_MAX; try++)); do
        REDIS_PORT=$(free_port)
        redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --dir "$RUN_DIR/redis" --save '' --appendonly no \
            </dev/null >"$log" 2>&1 {LIFELINE}>&- &
        REDIS_PID=$!
        for ((waited = 0; waited < READY_SECS_MAX * 20; waited++)); do
            kill -0 "$REDIS_PID" 2>/dev/null || break
            if [[ $(redis_ping "$REDIS_PORT") == +PONG* ]]; then
                # No longer a job of this shell: its end is the reaper's business, not a message.
                disown "$REDIS_PID"
                return 0
            fi
            sleep 0.05
        done
        kill -9 "$REDIS_PID" 2>/dev/null || true
        grep -q 'Address already in use' "$log" || break
    done
    die_with_log "Redis did not start" "$log"
}

redis_ping() {
    local answer=
    {
        exec {redis}<>"/dev/tcp/127.0.0.1/$1" && printf 'PING\r\n' >&"$redis" && read -r -t 2 answer <&"$redis"
    } 2>/dev/null || true
    printf '%s' "$answer"
}

# PostgreSQL refuses to run as root. Nothing that outlives this script may hold the lifeline.
as_postgres() {
    if ((EUID == 0)); then
        (cd / && exec runuser -u postgres -- "$@" {LIFELINE}>&-)
    else
        (cd / && exec "$@" {LIFELINE}>&-)
    fi
}

# A port nobody listens on at this moment; whoever starts a server on it tries again if it is lost.
free_port() {
    local port
    while :; do
        port=$((PORT_FIRST + (RANDOM * 32768 + RANDOM) % PORT_COUNT))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s\n' "$port"
}

die_with_log() {
    say "--- the end of $2:"
    tail -n 20 "$2" >&2
    die "$1"
}

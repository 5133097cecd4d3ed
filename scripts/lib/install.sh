# shellcheck shell=bash
# Finds the servers, the container engine, the browser and the other tools that the tests use and, on
# Debian as root, installs what is missing.
#
# Invariant: installing never starts a system service, and leaves the machine's own service policy
# as it was. Sourced, not run.

readonly POLICY_FILE=/usr/sbin/policy-rc.d
readonly APT_TRIES_MAX=3
readonly APT_LOCK_SECS_MAX=180

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# Prints the folder that holds initdb and postgres; Debian keeps them out of PATH.
find_postgres_bin() {
    local folder
    for folder in "${ROUNDSMAN_TEST_POSTGRES_BIN:-}" \
        $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV) \
        "$(pg_config --bindir 2>/dev/null || true)" \
        "$(dirname "$(command -v initdb || echo /)")"; do
        if [[ -n $folder && -x $folder/initdb && -x $folder/postgres ]]; then
            printf '%s\n' "$folder"
            return 0
        fi
    done
    return 1
}

# What the tests need and how it is told that it is there: a program, and the package that has it.
readonly TOOLS=(redis-server:redis-server strace:strace podman:podman runc:runc chromium:chromium
    python3:python3 busybox:busybox-static espeak-ng:espeak-ng node:nodejs npm:npm faketime:faketime)

# Makes sure that everything is there, or ends the script with what to do about it.
ensure_servers() {
    local missing=() tool
    find_postgres_bin >/dev/null || missing+=(postgresql)
    for tool in "${TOOLS[@]}"; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    # Debian ships a Python that cannot make virtual environments by itself.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    ((${#missing[@]} == 0)) && return 0

    local command="apt-get update && apt-get install ${missing[*]}"
    command -v apt-get >/dev/null || die "please install ${missing[*]} (PostgreSQL 14 or newer, Redis 7, strace 6)"
    ((EUID == 0)) || die "please run as root: $command"
    say "installing ${missing[*]} from the distribution's packages"
    install_packages "${missing[@]}" || die "cannot install ${missing[*]}; try by hand: $command"
    find_postgres_bin >/dev/null || die "PostgreSQL was installed but initdb is nowhere to be found"
    for tool in "${TOOLS[@]}"; do
        command -v "${tool%%:*}" >/dev/null || die "${tool##*:} was installed but ${tool%%:*} is not in PATH"
    done
}

# The published clients that tests drive, and what hears speech, in a virtual environment of their own.
# Exports where their interpreter is.
readonly CLIENTS=(vexa-client==0.5.4 standardwebhooks==1.1.0 pocketsphinx==5.1.1)

ensure_clients() {
    local folder=${CARGO_TARGET_DIR:-target}/test-clients
    if [[ $(cat "$folder/installed" 2>/dev/null) != "${CLIENTS[*]}" ]]; then
        say "installing the published clients ${CLIENTS[*]}"
        rm -rf "$folder"
        python3 -m venv "$folder" || die "python3 cannot make a virtual environment; install python3-venv"
        "$folder/bin/pip" install --quiet --disable-pip-version-check "${CLIENTS[@]}" </dev/null >&2 \
            || die "cannot install ${CLIENTS[*]} with pip"
        printf '%s' "${CLIENTS[*]}" >"$folder/installed"
    fi
    ROUNDSMAN_TEST_CLIENTS_PYTHON=$(cd "$folder/bin" && pwd)/python
    export ROUNDSMAN_TEST_CLIENTS_PYTHON
}

# Compiles the TypeScript worker library with its example, outside of the tree, whenever it has
# changed. Exports where the example is.
ensure_typescript_worker() {
    local source=$SCRIPTS_DIR/../workers/typescript folder=${CARGO_TARGET_DIR:-target}/typescript-worker state
    state=$(cd "$source" && find . -name node_modules -prune -o -name dist -prune -o -type f -print0 | sort -z | xargs -0 cat | cksum)
    if [[ $(cat "$folder/installed" 2>/dev/null) != "$state" ]]; then
        say "compiling the TypeScript worker library"
        mkdir -p "$folder"
        cp -R "$source"/{package.json,tsconfig.json,src,examples} "$folder/"
        (cd "$folder" && npm install --no-audit --no-fund --loglevel=error && npm run --silent build) </dev/null >&2 \
            || die "cannot compile the TypeScript worker library with npm"
        printf '%s' "$state" >"$folder/installed"
    fi
    ROUNDSMAN_TEST_TYPESCRIPT_WORKER=$(cd "$folder" && pwd)/dist/examples/render.js
    export ROUNDSMAN_TEST_TYPESCRIPT_WORKER
}

# The same for those that npm has: the client of rooms, and what it needs on a Node without WebSocket.
readonly NODE_CLIENTS=(loro-websocket@0.6.2 loro-adaptors@0.6.1 loro-crdt@1.17.1 ws@8.23.0)

ensure_node_clients() {
    local folder=${CARGO_TARGET_DIR:-target}/test-clients-npm
    if [[ $(cat "$folder/installed" 2>/dev/null) != "${NODE_CLIENTS[*]}" ]]; then
        say "installing the published clients ${NODE_CLIENTS[*]}"
        rm -rf "$folder"
        mkdir -p "$folder"
        npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --loglevel=error \
            "${NODE_CLIENTS[@]}" </dev/null >&2 || die "cannot install ${NODE_CLIENTS[*]} with npm"
        printf '%s' "${NODE_CLIENTS[*]}" >"$folder/installed"
    fi
    ROUNDSMAN_TEST_CLIENTS_NODE=$(cd "$folder" && pwd)
    export ROUNDSMAN_TEST_CLIENTS_NODE
}

# A subshell, so that its EXIT trap puts the service policy back however the installation ends.
install_packages() (
    forbid_service_starts
    trap allow_service_starts EXIT
    trap 'exit 130' INT TERM HUP
    export DEBIAN_FRONTEND=noninteractive
    bounded_retry apt-get update -q \
        && bounded_retry apt-get install -qy --no-install-recommends "$@"
)

bounded_retry() {
    local try log
    log=$(mktemp)
    for ((try = 1; try <= APT_TRIES_MAX; try++)); do
        if "$1" -o "DPkg::Lock::Timeout=$APT_LOCK_SECS_MAX" "${@:2}" </dev/null >"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        say "attempt $try of $APT_TRIES_MAX failed: $*"
        tail -n 5 "$log" >&2
        sleep $((try * 2))
    done
    rm -f "$log"
    return 1
}

# Debian's packages start their service unless this file says no (101). A policy that already says
# no is left alone; any other is kept beside ours until allow_service_starts.
forbid_service_starts() {
    if [[ -e $POLICY_FILE.before-roundsman ]]; then
        # An earlier installation was killed before it could tidy up.
        mv -f "$POLICY_FILE.before-roundsman" "$POLICY_FILE"
    elif is_our_policy; then
        rm -f "$POLICY_FILE"
    fi
    if [[ -x $POLICY_FILE ]]; then
        local answer=0
        "$POLICY_FILE" postgresql start >/dev/null 2>&1 || answer=$?
        ((answer == 101)) && return 0
        mv -f "$POLICY_FILE" "$POLICY_FILE.before-roundsman"
    fi
    printf '#!/bin/sh\n# roundsman scripts/test\nexit 101\n' >"$POLICY_FILE"
    chmod 755 "$POLICY_FILE"
}

allow_service_starts() {
    is_our_policy || return 0
    rm -f "$POLICY_FILE"
    if [[ -e $POLICY_FILE.before-roundsman ]]; then
        mv -f "$POLICY_FILE.before-roundsman" "$POLICY_FILE"
    fi
}

is_our_policy() { grep -qs '^# roundsman scripts/test$' "$POLICY_FILE"; }

# Shared by scripts/quickstart and scripts/test: sets this checkout up, step by step. Every step may be done already.
# Sourced, with the checkout as the current folder; needs bash.

ASSAY=.venv/bin/assay
DOCKERD_LOG=/var/log/assay-dockerd.log
DOCKERD_SECONDS=60

# Where it is set, every process of the tests would compile all of them anew.
unset PYTHONDONTWRITEBYTECODE

step() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$*"; }

# fail WHAT TO-DO...: ends the script with what is wrong and one line for each thing to do.
fail() {
    printf '\n%s: %s\n' "${0##*/}" "$1" >&2
    shift
    for line in "$@"; do printf '   → %s\n' "$line" >&2; done
    exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }

# Whether this script may install Debian packages: as root, on Debian, Ubuntu and their like.
can_install() { is_root && has apt-get; }

# install PACKAGE...
install() {
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    local log
    log=$(mktemp)
    if ! { apt-get update && apt-get install --yes --no-install-recommends "$@"; } >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install $*" "mend what it says above, then run this again"
    fi
    rm -f "$log"
}

# -- Python ---------------------------------------------------------------------------------------------------------

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if has "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# ensure_venv REQUIREMENTS: .venv with exactly what the file pins, and this checkout as the package in it.
ensure_venv() {
    step "Python environment in .venv ($1)"
    local python version stamp
    # One that was moved, or whose Python has gone or is too old, is made anew.
    if [ -e .venv ] && ! .venv/bin/python -c "import sys, pathlib
sys.exit(sys.version_info < (3, 11) or pathlib.Path(sys.prefix).resolve() != pathlib.Path('.venv').resolve())" \
        2>/dev/null; then
        say "the one that is there does not work, making it anew"
        rm -rf .venv
    fi
    if [ ! -e .venv ]; then
        if ! python=$(find_python) && can_install; then
            install python3 python3-venv
            python=$(find_python) || true
        fi
        [ -n "$python" ] || fail "no Python 3.11 or newer" "install one, or name it: PYTHON=/path/to/python3 $0"
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            version=$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')
            can_install || fail "$python cannot make a virtual environment" "as root: apt-get install $version"
            install "$version"
        fi
        "$python" -m venv .venv || {
            rm -rf .venv
            fail "$python -m venv .venv failed" "see above"
        }
    fi
    stamp=".venv/$1.$(cat "$1" pyproject.toml | sha256sum | cut -c 1-16)"
    if [ -e "$stamp" ] && [ -x "$ASSAY" ]; then
        say "it is complete"
        return
    fi
    say "installing what $1 pins"
    # The pins are complete, so a constraint or a user's own site folder could only disturb them.
    export PIP_CONSTRAINT=/dev/null PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
    .venv/bin/python -m pip install -qq --no-deps --require-hashes --requirement "$1" ||
        fail "pip could not install what $1 pins" \
            "behind a proxy set HTTPS_PROXY; with an authority of your own set PIP_CERT to its bundle"
    .venv/bin/python -m pip install -qq --no-deps --no-index --no-build-isolation --editable . ||
        fail "pip could not install this checkout into .venv" "see above"
    rm -f ".venv/$1".*
    : >"$stamp"
}

# -- Docker Engine --------------------------------------------------------------------------------------------------

# 0 if an engine answers; else its error is in $why.
engine_answers() {
    why=$(.venv/bin/python -c 'from assay.sandbox.engine import Engine, EngineUnavailable
import sys
try:
    Engine.connect()
except EngineUnavailable as error:
    sys.exit(str(error))' 2>&1)
}

ensure_engine() {
    step "Docker Engine"
    if engine_answers; then
        say "one answers"
        return
    fi
    say "$why"
    if [ -n "${DOCKER_HOST:-}" ]; then
        fail "no Docker Engine answers at DOCKER_HOST ($DOCKER_HOST)" "start it there, or unset DOCKER_HOST"
    fi
    is_root || fail "no Docker Engine answers, and only root can start one" \
        "run this once as root, or start Docker and add yourself to the group docker"
    if ! has dockerd; then
        can_install || fail "no Docker Engine is installed" "install one: https://docs.docker.com/engine/install/"
        # apparmor: where the kernel has it, the engine starts no container without its parser.
        install docker.io iptables ca-certificates apparmor
    fi
    start_engine
    say "it answers"
}

start_engine() {
    if engine_answers; then return; fi
    if [ -d /run/systemd/system ] && has systemctl; then
        say "starting it with systemctl"
        systemctl start docker || fail "systemctl could not start docker" "journalctl -u docker says why"
        wait_for_engine ''
        return
    fi
    drop_stale_pid /var/run/docker.pid dockerd
    drop_stale_pid /var/run/docker/containerd/containerd.pid containerd
    say "starting dockerd, its log is $DOCKERD_LOG"
    setsid nohup dockerd >>"$DOCKERD_LOG" 2>&1 </dev/null &
    wait_for_engine $!
}

# drop_stale_pid FILE NAME: a pid file of a process that is gone, or whose number another one has now.
drop_stale_pid() {
    local pid
    [ -e "$1" ] || return 0
    pid=$(tr -dc 0-9 <"$1")
    if [ -z "$pid" ] || [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$2" ]; then
        say "removing the stale $1"
        rm -f "$1"
    fi
}

# wait_for_engine PID: until it answers; PID is the dockerd that was started, if this script did.
wait_for_engine() {
    local until=$((SECONDS + DOCKERD_SECONDS))
    until engine_answers; do
        if [ -n "$1" ] && ! kill -0 "$1" 2>/dev/null; then
            tail -n 5 "$DOCKERD_LOG" >&2
            fail "dockerd ended at once" "$DOCKERD_LOG says why"
        fi
        [ "$SECONDS" -lt "$until" ] || fail "the engine does not answer after $DOCKERD_SECONDS s: $why" \
            "look at $DOCKERD_LOG, or journalctl -u docker"
        sleep 0.5
    done
}

# -- images ---------------------------------------------------------------------------------------------------------

# ensure_images AGENT...: the base image and what runs need; without agents, what the project's stages name.
ensure_images() {
    step "Base image"
    if ! "$ASSAY" build --base; then
        if has debootstrap || ! can_install; then
            fail "no base image" "see above"
        fi
        install debootstrap
        "$ASSAY" build --base || fail "no base image" "see above"
    fi
    step "Images for ${*:-the agents of this project} (a first build takes minutes, then none)"
    "$ASSAY" build "$@" || fail "an image could not be built" "the log named above says why; then run this again"
}

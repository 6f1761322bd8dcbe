#!/bin/sh
# Makes .venv at the root of the repository and installs the project there, editable, with all that development
# needs. Says each step, what is downloaded, and what to do when a step fails. Says and does nothing when that has been
# done already for this pyproject.toml at this place.
#     sh scripts/setup.sh
#     PYTHON=/path/to/python sh scripts/setup.sh      with a chosen interpreter, when .venv has yet to be made
set -eu
cd "$(dirname -- "$0")/.."
stamp=.venv/installed-from

# Megabytes: what pip downloads, and what lies on the disk afterwards.
download=900 disk=2500

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# What an installation was made from: the place, because an environment cannot be moved, and pyproject.toml.
origin() { pwd -P; cat pyproject.toml; }

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { is_recent "$1" && "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
has_virtualenv() { is_recent "$1" && "$1" -m virtualenv --version >/dev/null 2>&1; }

find_python() { # $1: the test that it must pass
    suits=$1
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.11 python3.12 python3.13 python3.14
    fi
    for candidate; do
        if "$suits" "$candidate"; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

make_venv() {
    if ! python=$(find_python has_venv); then
        # Debian keeps venv in a package of its own, named after the interpreter's version.
        if python=$(find_python is_recent); then
            packages=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        else
            packages="python3 python3-venv"
        fi
        # shellcheck disable=SC2086  # one package or two
        sh scripts/apt.sh $packages || true
        python=$(find_python has_venv) || python=
    fi
    if [ -n "$python" ]; then
        "$python" -m venv --clear .venv
    elif python=$(find_python has_virtualenv); then
        "$python" -m virtualenv -q --clear .venv
    elif python=$(find_python is_recent) && command -v virtualenv >/dev/null 2>&1; then
        virtualenv -q --clear -p "$python" .venv
    elif [ -n "$python" ]; then
        fail "$python has no working venv module: install $packages (Debian, Ubuntu), or virtualenv, and run this again."
    else
        found=$("${PYTHON:-python3}" -c 'import sys; print(", but %d.%d at %s" % (*sys.version_info[:2], sys.executable))' 2>/dev/null || true)
        fail "no Python 3.11 or newer found${PYTHON:+ at $PYTHON}$found: install one (Debian 12 or newer: python3 python3-venv;" \
            "elsewhere: https://www.python.org/downloads), or name it: PYTHON=/path/to/python sh scripts/setup.sh"
    fi
}

# The environment can be used, though perhaps for an older pyproject.toml, or after an interrupted installation.
usable() {
    is_recent .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1 || return 1
    [ ! -e "$stamp" ] || [ "$(head -n 1 "$stamp")" = "$(pwd -P)" ]
}

# Megabytes that are free where .venv is.
free() { df -Pm . | awk 'NR == 2 { print $4 }'; }

# Runs pip, and says every few seconds what it does. Its output goes to a file, and is shown if it fails.
install() {
    log=.venv/install.log
    .venv/bin/python -m pip install --disable-pip-version-check --no-color --progress-bar off --use-pep517 --editable '.[dev]' \
        >"$log" 2>&1 &
    pip=$!
    shown=
    while kill -0 "$pip" 2>/dev/null; do
        sleep 2
        now=$(awk '/^ *Downloading / && !/\.metadata/ { count += 1; last = $2 " " $3 $4 } /^Installing collected/ { print "unpacking all of them"; done = 1; exit }
                   END { if (!done && count) print count " packages, now " last }' "$log")
        [ "$now" = "$shown" ] || say "    $now"
        shown=$now
    done
    wait "$pip"
}

# What is wrong, from what pip said, and what to do about it.
advice() {
    if grep -qi 'no space left' "$log"; then
        echo "There is no room: .venv needs about $disk MB here ($(free) MB are free), and pip some of that in ${TMPDIR:-/tmp} meanwhile" \
            "(TMPDIR=/elsewhere sh scripts/setup.sh)."
    elif grep -Eqi 'name resolution|failed to establish|connection (refused|reset|broken)|timed out|unreachable|proxyerror|max retries|from versions: none' "$log"; then
        echo "pip could not reach its package index. Look at the network; behind a proxy set HTTPS_PROXY, for a mirror PIP_INDEX_URL."
    elif grep -Eqi 'requires a different python|requires-python' "$log"; then
        echo "A package does not work with $(.venv/bin/python --version): name another one, PYTHON=/path/to/python, and remove .venv."
    elif grep -Eqi 'no matching distribution|could not find a version' "$log"; then
        echo "The package index has no version for $(.venv/bin/python --version) on $(uname -sm): name another Python," \
            "PYTHON=/path/to/python, and remove .venv; or look at PIP_INDEX_URL."
    else
        echo "Its message stands above."
    fi
}

if is_recent .venv/bin/python && origin | cmp -s - "$stamp"; then
    exit 0
fi
if ! usable; then
    say "step 1 of 2: an environment in $(pwd)/.venv"
    make_venv
fi
if [ ! -e "$stamp" ] && [ "$(free)" -lt "$disk" ] 2>/dev/null; then
    say "there are $(free) MB free in $(pwd), and .venv needs about $disk MB: this may fail"
fi
say "step 2 of 2: packages into .venv, with $(.venv/bin/python --version); the first time pip downloads about $download MB," \
    "and $disk MB lie on the disk"
rm -f "$stamp"
if ! install; then
    tail -n 15 "$log" >&2
    fail "pip could not install the project. $(advice) Run the same command again when that is mended: what is there stays."
fi
say "done"
origin >"$stamp"

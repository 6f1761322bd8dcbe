#!/bin/sh
# Makes .venv at the root of the repository and installs the project there, editable, with all that development
# needs. Says and does nothing when that has been done already for this pyproject.toml at this place.
#     sh scripts/setup.sh
#     PYTHON=/path/to/python sh scripts/setup.sh      with a chosen interpreter, when .venv has yet to be made
set -eu
cd "$(dirname -- "$0")/.."
stamp=.venv/installed-from

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
        fail "no Python 3.11 or newer found${PYTHON:+ at $PYTHON}: install one (Debian: python3 python3-venv)," \
            "or name it: PYTHON=/path/to/python sh scripts/setup.sh"
    fi
}

# The environment can be used, though perhaps for an older pyproject.toml, or after an interrupted installation.
usable() {
    is_recent .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1 || return 1
    [ ! -e "$stamp" ] || [ "$(head -n 1 "$stamp")" = "$(pwd -P)" ]
}

if is_recent .venv/bin/python && origin | cmp -s - "$stamp"; then
    exit 0
fi
if ! usable; then
    make_venv
fi
say "installing into .venv; the first time this takes some minutes"
rm -f "$stamp"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 --editable '.[dev]' ||
    fail "pip could not install the project; its message stands above. Run this again when that is mended."
origin >"$stamp"

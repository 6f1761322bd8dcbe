#!/bin/sh
# Installs Debian packages, as root or by a sudo that asks for no password:
#     sh scripts/apt.sh PACKAGE...
# Exit status 1, for the caller to say what to do instead, when there is no apt-get, when we are neither root nor
# may use sudo, or when apt-get fails; its output is shown in that last case only.
set -eu

command -v apt-get >/dev/null 2>&1 || exit 1
if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    exit 1
fi

# shellcheck disable=SC2086  # $sudo is one word, two or none
apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" 2>&1; }

printf 'apt: installing %s\n' "$*" >&2
# An unreachable source among several makes `update` fail: whether that matters, `install` will tell.
updated=$(apt update) || true
if ! installed=$(apt install -y --no-install-recommends "$@"); then
    printf '%s\n%s\n' "$updated" "$installed" >&2
    exit 1
fi

#!/bin/sh
# The tests of the core, of the tracer and of the local backend with another Python of this machine than that of .venv:
#     sh scripts/second.sh             with the newest other one; says so and does nothing where there is none
#     sh scripts/second.sh all         all tests but those of Spark, with each of them (for the night)
#     sh scripts/second.sh all FILE... these tests, with each of them
set -eu
cd "$(dirname -- "$0")/.."

say() { printf 'second: %s\n' "$*" >&2; }

version() { "$1" -c 'import sys; v = sys.version_info; print("%d.%d" % v[:2]) if v >= (3, 11) else sys.exit(1)' 2>/dev/null; }

own=$(version .venv/bin/python || true)
others= seen=" $own "
for candidate in python3.14 python3.13 python3.12 python3.11 "$HOME"/.pyenv/versions/3.*/bin/python3 python3; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    found=$(version "$path") || continue
    case $seen in *" $found "*) continue ;; esac
    seen="$seen$found "
    others="$others$found $path
"
done
others=$(printf '%s' "$others" | sort -t. -k2,2nr)
if [ -z "$others" ]; then
    say "there is no Python beside ${own:-that of .venv}: nothing to do"
    exit 0
fi
what=${1:-} extras=local,test
[ "$what" != all ] || { shift; extras=dev; } # tests of Avro, stores and databases need their packages
[ "$what" = all ] || others=$(printf '%s\n' "$others" | head -n 1)

few="tests/test_tracing.py tests/test_check.py tests/test_records.py tests/test_interpreter.py tests/test_markers.py
tests/local/test_csv_files.py tests/local/test_settled.py tests/local/test_ends.py tests/stdlib/test_lambda_types.py tests/stdlib/test_open_types.py"

status=0
printf '%s\n' "$others" | {
    while read -r found path; do
        home=.venv-$found
        say "Python $found of $path, in $home"
        if [ ! -x "$home/bin/python" ]; then
            "$path" -m venv "$home" || { say "it has no venv module: left out"; rm -rf "$home"; continue; }
        fi
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --editable ".[$extras]" ||
            { say "pip could not install the project for it: left out"; continue; }
        if [ "$what" = all ]; then
            "$home/bin/python" -m pytest -n 4 --dist loadfile --ignore tests/spark "$@" || status=1
        else
            # shellcheck disable=SC2086  # several files
            "$home/bin/python" -m pytest -n 2 $few || status=1
        fi
    done
    exit "$status"
}

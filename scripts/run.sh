#!/bin/sh
# The targets of the Makefile, for machines without make too. Further arguments go to the command:
#     sh scripts/run.sh demo|test|check|bench|clean [ARGUMENT...]
set -eu
cd "$(dirname -- "$0")/.."
python=.venv/bin/python

say() { printf '%s: %s\n' "$target" "$*" >&2; }

with_java() {
    JAVA_HOME=$(sh scripts/java.sh)
    export JAVA_HOME
}

check() {
    failed=
    "$python" -m ruff check . || failed=ruff
    set --
    for folder in tracetypes tests examples benchmarks; do
        [ ! -d "$folder" ] || set -- "$@" "$folder"
    done
    "$python" -m mypy "$@" || failed="${failed:+$failed and }mypy"
    [ -z "$failed" ]
}

target=${1:-}
[ $# -eq 0 ] || shift
case $target in
demo)
    # What is local needs no Java: the demo looks for it, with scripts/java.sh, when that has been shown.
    sh scripts/setup.sh
    say "the first answer comes in a few seconds; Java and Spark come after it"
    exec "$python" -m examples.demo "$@"
    ;;
test)
    sh scripts/setup.sh
    say "step 1 of 3: Java for Spark"
    with_java
    say "step 2 of 3: ruff and mypy, a minute or two"
    # CI=true asks for Hypothesis's profile `ci`; tests/conftest.py reads the variable.
    if [ "${CI:-}" = true ]; then
        export HYPOTHESIS_PROFILE="${HYPOTHESIS_PROFILE:-ci}"
    fi
    # Tests start some hundred Python processes, and each xdist process imports all tests. Byte code saves each of them seconds.
    unset PYTHONDONTWRITEBYTECODE
    # Beside mypy, which needs one core. Each Java process of a test starts with less work then; that is done once for a machine.
    # The collection writes the byte code of the tests, which four processes would else make four times.
    {
        prepared=0
        SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}" "$python" -m tracetypes prepare || prepared=$?
        "$python" -m pytest --collect-only >/dev/null 2>&1 || :
        exit "$prepared"
    } &
    prepares=$!
    status=0
    if ! check; then
        echo "run: $failed failed, see above. The tests run all the same; the exit status will not be 0." >&2
        status=1
    fi
    wait "$prepares" || echo "run: Java will start without an archive of classes, and the tests take longer." >&2
    # Last, so that its summary is the last thing to be seen. In four processes (tests that wait for a JVM leave a core idle), a file at a time, the slow ones (tests/spark)
    # first; `test -n 0` has all in this one.
    say "step 3 of 3: the tests in four processes, 25 minutes on two cores; $python -m pytest -n 0 FILE runs one file"
    "$python" -m pytest -n 4 --dist loadfile --no-loadscope-reorder "$@" || status=$?
    exit "$status"
    ;;
check)
    sh scripts/setup.sh
    check
    ;;
bench)
    # Each line: the command, and the first line of the benchmark's docstring.
    for file in benchmarks/[!_]*.py; do
        [ -e "$file" ] || { echo "bench: there are no benchmarks yet"; break; }
        name=$(basename "$file" .py)
        printf '%-52s %s\n' "$python -m benchmarks.$name" "$(sed -n '/"""/{s/^[^"]*"""//;s/""".*//;p;q;}' "$file")"
    done
    ;;
clean)
    # .venv stays: remove it by hand to have it made anew.
    rm -rf build dist spark-warehouse metastore_db derby.log .mypy_cache .pytest_cache .ruff_cache .hypothesis
    find . \( -path ./.venv -o -path ./.git \) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
    ;;
*)
    echo "usage: sh scripts/run.sh demo|test|check|bench|clean [ARGUMENT...]" >&2
    exit 2
    ;;
esac

#!/bin/sh
# Finds a Java that Spark 4.3 runs on, or installs one, and prints its home; nothing else goes to standard output.
#     JAVA_HOME=$(sh scripts/java.sh) && export JAVA_HOME
# Looks at JAVA_HOME, at the java on the PATH and into /usr/lib/jvm. The first of 17 to 21 is taken; a newer one
# only when there is none of these, because Spark 4.3 has not been tried on it.
set -eu
cd "$(dirname -- "$0")/.."

say() { printf 'java: %s\n' "$*" >&2; }

# Prints "VERSION HOME" of a java command. It must have the module that Spark's launcher asks for; runtimes that
# were cut down do not, and neither does any Java before 16.
probe() {
    "$1" --add-modules=jdk.incubator.vector -XshowSettings:properties -version 2>&1 | sed -n '
        s/^ *java\.home = //p
        s/^ *java\.specification\.version = //p' | {
        read -r home && read -r version && printf '%s %s\n' "$version" "$home"
    }
}

# Prints the home of the best Java of this machine.
find_java() {
    newer=
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        [ -x "$java" ] || continue
        found=$(probe "$java") || continue
        version=${found%% *} home=${found#* }
        if [ "$version" -ge 17 ] 2>/dev/null && [ "$version" -le 21 ]; then
            [ "${JAVA_HOME:+$JAVA_HOME/bin/java}" = "$java" ] || [ -z "${JAVA_HOME:-}" ] ||
                say "JAVA_HOME ($JAVA_HOME) is not a Java 17 to 21: using $home"
            printf '%s\n' "$home"
            return 0
        elif [ "$version" -gt 21 ] 2>/dev/null; then
            newer=${newer:-$home}
        fi
    done
    [ -n "$newer" ] && printf '%s\n' "$newer"
}

# Debian 13 has no 17 any more.
find_java || {
    say "there is none for Spark: Debian's is downloaded, about 50 MB, and takes 200 MB on the disk"
    { sh scripts/apt.sh openjdk-17-jre-headless || sh scripts/apt.sh openjdk-21-jre-headless; } && find_java
} || {
    say "Spark needs Java 17 or 21 and none was found: install one (Debian 12: openjdk-17-jre-headless," \
        "Debian 13: openjdk-21-jre-headless, macOS: brew install openjdk@17), or set JAVA_HOME to it."
    exit 1
}

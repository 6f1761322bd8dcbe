"""Jars for tests, from Maven Central, through the Ivy that lies in PySpark, once into the user's cache."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Dependency", "Unavailable", "fetched", "java", "spark_jars"]


class Unavailable(Exception):
    """Something is not to be had here, and why."""


class Dependency(NamedTuple):
    """A module of Maven. ``whole``: with what it needs itself."""

    org: str
    name: str
    version: str
    whole: bool = True


_MODULE = """<ivy-module version="2.0">
  <info organisation="tracetypes" module="tests"/>
  <configurations defaultconfmapping="default->default"><conf name="default"/></configurations>
  <dependencies>
{dependencies}
{excluded}
  </dependencies>
</ivy-module>
"""


def java() -> str:
    """The Java that runs Spark."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise Unavailable("there is no Java")
    return found


def spark_jars() -> Path:
    """The directory of the jars of PySpark."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    return Path(spark.origin).parent / "jars"


def fetched(name: str, dependencies: Sequence[Dependency], excluded: Sequence[str] = ()) -> Path:
    """The directory with the jars of some modules. ``name``: of that directory. ``excluded``: organisations whose modules are
    left out. Raises :class:`Unavailable`."""
    (ivy,) = spark_jars().glob("ivy-*.jar")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracetypes"
    there = cache / name
    if there.is_dir():
        return there
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        lines = [
            f'    <dependency org="{one.org}" name="{one.name}" rev="{one.version}" transitive="{str(one.whole).lower()}"/>'
            for one in dependencies
        ]
        left_out = [f'    <exclude org="{org}"/>' for org in excluded]
        Path(scratch, "ivy.xml").write_text(_MODULE.format(dependencies="\n".join(lines), excluded="\n".join(left_out)))
        words = [java(), "-jar", str(ivy), "-cache", f"{scratch}/ivy", "-ivy", f"{scratch}/ivy.xml", "-confs", "default"]
        words += ["-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{name} could not be fetched in ten minutes") from None
        wanted = [f"{one.name}-{one.version}.jar" for one in dependencies]
        if done.returncode != 0 or not all(Path(scratch, "jars", one).is_file() for one in wanted):
            raise Unavailable(f"{name} cannot be fetched from Maven Central (no network?)")
        if not there.is_dir():
            os.replace(f"{scratch}/jars", there)
    return there

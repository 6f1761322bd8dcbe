"""Object stores as Spark's Java process reaches them: by Hadoop's client (``s3a://``), at the place of the environment.

Hadoop's client finds credentials in the environment of each process, too. Only what it does not look for there is set.
"""

from __future__ import annotations

import os
from typing import Final

from pyspark.sql import SparkSession

from tracetypes.compiler.spark.java import hadoop_version, has_class, set_hadoop
from tracetypes.compiler.store.places import Place, spark_address
from tracetypes.errors import UsageError

__all__ = ["reach"]

CLIENT: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def reach(spark: SparkSession, place: Place) -> None:
    """See that Java has a client for a place. Raises :class:`UsageError` ``TT401`` if it has none."""
    if not spark_address(place).startswith("s3a://"):
        return
    if not has_class(spark, CLIENT):
        raise UsageError(
            "TT401",
            f"--checkpoint {place}: Spark has no client for S3",
            fix=f'PYSPARK_SUBMIT_ARGS="--packages org.apache.hadoop:hadoop-aws:{hadoop_version(spark)} pyspark-shell"',
        )
    set_hadoop(spark, _settings())


def _settings() -> dict[str, str]:
    """What Hadoop's client is told of the store."""
    found: dict[str, str] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
    if endpoint:
        found |= {"fs.s3a.endpoint": endpoint, "fs.s3a.path.style.access": "true"}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        found["fs.s3a.endpoint.region"] = region
    return found

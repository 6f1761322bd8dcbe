"""Hadoop's client of S3 for Spark, and the parts of the AWS SDK that it needs; all of the SDK would be 600 MB."""

from __future__ import annotations

from tests.spark.maven import Dependency, Unavailable, fetched, spark_jars

__all__ = ["submit_arguments"]

HADOOP, SDK, ACCELERATOR = "3.5.0", "2.35.4", "1.3.1"
"""The last two are those of ``hadoop-project`` of this version."""

AWS = "software.amazon.awssdk"


def submit_arguments(*more: str) -> str:
    """``PYSPARK_SUBMIT_ARGS`` of a session with the client. Raises :class:`Unavailable`."""
    if not (spark_jars() / f"hadoop-client-api-{HADOOP}.jar").is_file():
        raise Unavailable(f"Spark has another Hadoop than {HADOOP}")
    there = fetched(
        f"hadoop-aws-{HADOOP}",
        [
            Dependency("org.apache.hadoop", "hadoop-aws", HADOOP, whole=False),
            *(Dependency(AWS, name, SDK) for name in ("s3", "s3-transfer-manager", "sts")),
            Dependency("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ACCELERATOR, whole=False),
        ],
        excluded=["io.netty", "org.slf4j", "commons-logging", "commons-codec"],  # Spark has them
    )
    jars = ",".join(map(str, sorted(there.glob("*.jar"))))
    return " ".join(["--jars", jars, *more, "pyspark-shell"])

"""The columns that ``tracetypes schema --as spark`` prints are those that Spark makes of them."""

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DecimalType, LongType, StringType, StructType, TimestampType

from tests.test_foreign_schemas import Odd, Order, record
from tracetypes.foreign_schemas import schema_text


def test_Spark_reads_the_columns(spark: SparkSession) -> None:
    types = spark.createDataFrame([], schema_text(record(Order), "spark")).schema
    assert [one.name for one in types] == [name for name, _ in record(Order).columns]
    assert [one.name for one in types if one.nullable] == ["day", "first", "from"]
    assert (types["at"].dataType, types["total"].dataType) == (TimestampType(), DecimalType(9, 2))
    lines = types["lines"].dataType
    assert isinstance(lines, ArrayType)
    assert isinstance(lines.elementType, StructType)
    assert [(one.name, one.dataType) for one in lines.elementType] == [("article", StringType()), ("count", LongType())]
    assert spark.createDataFrame([], schema_text(record(Odd), "spark")).columns == ["@timestamp"]

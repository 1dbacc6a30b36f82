"""The Spark job: TeraGen, TeraSort and TeraValidate, round after round. Run by spark-submit, not imported.

Records are those of the sort benchmark in their printable form (sortbenchmark.org, `gensort -a`): 100 bytes a line, the
first 10 a random key. A result counts when it has as many records as the input, the same checksum, and is in order.

    terasort.py FOLDER DONE RECORDS PARTITIONS
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import zlib
from pathlib import Path
from typing import Any


def generate(spark: Any, folder: Path, records: int, partitions: int, seed: int) -> int:
    """Write the input; return its checksum, the sum of the records' CRC-32."""
    from pyspark.sql import functions as f

    number = f.lpad(f.hex(f.col("id")), 32, "0")
    key = f.substring(f.base64(f.unhex(f.sha2(f.concat_ws("/", f.lit(str(seed)), f.col("id")), 256))), 1, 10)
    record = f.rpad(f.concat_ws("  ", key, number), 99, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    frame = spark.range(0, records, 1, partitions).select(record.alias("value"))
    frame.write.mode("overwrite").text(str(folder))
    return int(spark.read.text(str(folder)).agg(f.sum(f.crc32("value"))).first()[0])


def sort(spark: Any, source: Path, target: Path) -> None:
    """Sort by key, over all partitions."""
    from pyspark.sql import functions as f

    spark.read.text(str(source)).orderBy(f.substring("value", 1, 10)).write.mode("overwrite").text(str(target))


def validate(folder: Path, records: int, checksum: int) -> str | None:
    """Read the result from front to back; say what is wrong with it, nothing if it is right."""
    count, total, last = 0, 0, b""
    for part in sorted(folder.glob("part-*")):
        with part.open("rb") as lines:
            for line in lines:
                key = line[:10]
                if key < last:
                    return f"record {count} of {part.name} is out of order"
                count, total, last = count + 1, total + zlib.crc32(line.rstrip(b"\n")), key
    if count != records:
        return f"{count} records came out, {records} went in"
    return None if total == checksum else "the records that came out are not those that went in"


def main(folder: Path, done: Path, records: int, partitions: int) -> int:
    """Sort until killed; after the first round wait for FOLDER/go."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("terasort").config("spark.sql.shuffle.partitions", partitions).getOrCreate()
    source, target = folder / "in", folder / "out"
    number, parent = 0, os.getppid()
    while True:
        began = time.time()
        checksum = generate(spark, source, records, partitions, number)
        sort(spark, source, target)
        wrong = validate(target, records, checksum)
        if wrong is not None:
            print(f"TeraValidate: {wrong}", file=sys.stderr)
            return 1
        with done.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"records": records, "start": began, "end": time.time()}) + "\n")
        for data in (source, target):
            shutil.rmtree(data)
        while number == 0 and not (folder / "go").exists():
            if os.getppid() != parent:
                return 1  # the JVM was killed, with which this process does not die
            time.sleep(0.05)
        number += 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))

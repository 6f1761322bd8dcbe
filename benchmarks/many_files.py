"""Ours alone, local backend: the time and memory of many files of one line.

    python -m benchmarks.many_files [--files N,N,...]

Prints a JSON line for each number of files, each run in a process of its own. Files are written before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
from pathlib import Path
from typing import Any

import tracetypes
from tracetypes import Dataflow, U, every, json_lines

flow = Dataflow("files")
flow.sink("out", flow.source("s", U[str, int], markers=every(seconds=10, time=lambda v: v), format=json_lines()))


def measure(folder: str, files: int) -> dict[str, Any]:
    """A run over so many files, which are there."""
    result = tracetypes.run(flow, {"s": folder}, {"out": []}, backend="local")
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"files": files, "seconds": round(result.seconds, 1), "rows": result.rows, "mebibytes": round(mebibytes)}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="10000,100000")
    for files in map(int, parser.parse_args(arguments).files.split(",")):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
            for number in range(files):
                Path(folder, f"{number:07}.jsonl").write_text(f'{{"key": "a", "value": {number}}}\n')
            print(json.dumps(pool.apply(measure, (folder, files))), flush=True)


if __name__ == "__main__":
    main()

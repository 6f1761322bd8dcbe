"""The smart-homes pipeline: ours against PySpark as an expert writes it (benchmarks/by_hand/smart_homes.py).

    python -m benchmarks.smart_homes [--events N] [--homes N] [--files N] [--files-per-step N] [--runs N] [--parallelism 1,2]

A home has 24 plugs, each with a measurement of load and one of work about every two seconds; ``--homes`` says over how many
homes the events are spread. Trees are trained on generated history first; by hand they are scikit-learn's, ours are the same
as arrays. ``floor``: scan and filter. Otherwise as benchmarks/yahoo.py; the recount is pandas, without a stream. Floats are
compared to 9 digits, and predictions where the features are not that close to a threshold.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from benchmarks._compare import (
    Setting,
    alternate,
    for_each_parallelism,
    medians,
    options,
    say,
    scratch,
    speedups,
    versions,
)
from benchmarks.by_hand import smart_homes as by_hand
from examples import smart_homes, smart_homes_data
from examples.home_energy import DEVICES, KEPT, MAX_GAP
from examples.smart_homes import PAST
from examples.smart_homes_data import HOUSEHOLDS, PLUGS, START
from tracetypes.compiler.spark.session import session


def recount(rows: pd.DataFrame, models: dict[str, Any]) -> pd.DataFrame:
    """Every second of every type of device: watts, consumption of the last minute, prediction."""
    loads = rows[rows["property"] == 1]
    number = (loads["house"] * 31 + loads["household"] * 7 + loads["plug"]) % len(DEVICES)
    loads = loads.assign(device=np.array(DEVICES)[number])
    loads = loads[loads["device"].isin(KEPT)].sort_values(["timestamp", "value"], kind="stable")
    filled = []
    for (_, _, _, device), one in loads.groupby(["house", "household", "plug", "device"], sort=False):
        at, watts = one["timestamp"].to_numpy(), one["value"].to_numpy()
        outages = np.flatnonzero(np.diff(at, prepend=at[0]) > MAX_GAP)
        for part_at, part in zip(np.split(at, outages), np.split(watts, outages), strict=True):
            # Of several loads at one second the least counts, and the line to the next second starts at the greatest.
            between = np.setdiff1d(np.arange(part_at[0], part_at[-1] + 1), part_at)
            left = np.searchsorted(part_at, between) - 1
            slope = (part[left + 1] - part[left]) / (part_at[left + 1] - part_at[left]) if len(left) else 0.0
            line = part[left] + (between - part_at[left]) * slope
            filled.append(pd.DataFrame({"key": device, "ts": between, "watts": line}))
            first = np.diff(part_at, prepend=part_at[0] - 1) > 0
            filled.append(pd.DataFrame({"key": device, "ts": part_at[first], "watts": part[first]}))
    averages = pd.concat(filled).groupby(["key", "ts"])["watts"].mean().reset_index()
    out = []
    for device, one in averages.groupby("key"):
        series = one.set_index("ts")["watts"]
        whole = series.reindex(range(series.index.min(), series.index.max() + 1), fill_value=0.0)
        consumed = whole.rolling(PAST, min_periods=1).sum()[series.index] / 3_600
        features = np.column_stack([series.index % 86_400, series, consumed])
        predicted = models[device].predict(features)
        out.append(one.assign(consumed=consumed.to_numpy(), predicted=predicted))
    return pd.concat(out).reset_index(drop=True)


def compare(recount: pd.DataFrame, out: Path, *, until: int) -> dict[str, Any]:
    """Seconds that are missing, too many or wrong; ``undue``: missing and after ``until``."""
    names = ["key", "ts", "watts", "consumed", "predicted"]
    parts = [pq.read_table(part).to_pandas() for part in out.glob("*.parquet")]
    rows = pd.concat(parts)[names] if parts else recount.iloc[:0]
    both = recount.merge(rows, on=["key", "ts"], how="outer", suffixes=("", "_found"), indicator=True)
    missing, paired = both[both["_merge"] == "left_only"], both[both["_merge"] == "both"]
    close = {name: np.isclose(paired[name], paired[f"{name}_found"], rtol=1e-9, atol=1e-9) for name in names[2:]}
    return {
        "rows": len(rows),
        "missing": int((missing["ts"] <= until).sum()),
        "undue": int((missing["ts"] > until).sum()),
        "extra": int((both["_merge"] == "right_only").sum() + rows.duplicated(["key", "ts"]).sum()),
        "wrong": int((~(close["watts"] & close["consumed"])).sum()),
        "other_leaf": int((~close["predicted"] & close["watts"] & close["consumed"]).sum()),
    }


def exact(difference: dict[str, Any]) -> bool:
    """``other_leaf`` is forgiven: features within rounding of a threshold; more than one in 1,000 are not."""
    wrong = difference["missing"] + difference["extra"] + difference["wrong"]
    return not wrong and difference["other_leaf"] <= difference["rows"] // 1_000


def child(arguments: argparse.Namespace) -> None:
    """One parallelism."""
    spark = session(parallelism=arguments.child)
    models = pickle.loads((arguments.data / "models.pickle").read_bytes())
    setting = Setting(spark, arguments.data / "readings", "readings", arguments.files_per_step, arguments.child, arguments.keep)
    setting.warm()
    flow = smart_homes.predictions(smart_homes_data.trees_of(models))
    query = partial(by_hand.smart_homes, models=models)
    differences: dict[str, dict[str, Any]] = {}
    if not arguments.no_verify:
        rows = pq.read_table(arguments.data / "readings").to_pandas()
        expected = recount(rows, models)
        last = int(rows["timestamp"].max())
        with scratch() as out:
            setting.ours(flow, out / "ours.parquet")
            differences["ours"] = compare(expected, out / "ours.parquet", until=last)
            if not arguments.only_ours:
                setting.other(query, "append", out / "other.parquet")
                differences["other"] = compare(expected, out / "other.parquet", until=last - 2 * MAX_GAP)
    sides = {"ours": partial(setting.ours, flow)}
    if not arguments.only_ours:
        sides["other"] = partial(setting.other, query, "append")
        sides["floor"] = partial(setting.other, by_hand.kept, "append")
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    say(
        benchmark="smart_homes",
        query="predictions",
        keys=arguments.homes * HOUSEHOLDS * PLUGS,
        events=int(sum(pq.read_metadata(part).num_rows for part in (arguments.data / "readings").iterdir())),
        parallelism=arguments.child,
        ours=median["ours"],
        ours_all=[round(t, 2) for t in seconds["ours"]],
        other=median.get("other"),
        ratio=round(median["other"] / median["ours"], 2) if "other" in median else None,
        other_is="transformWithStateInPandas by plug, applyInPandasWithState by device",
        floor=median.get("floor"),
        exact={name: exact(one) for name, one in differences.items()},
        differences=differences,
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, events=2_000_000)
    parser.add_argument("--homes", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        seconds = max(120, arguments.events // (arguments.homes * HOUSEHOLDS * PLUGS))  # an event a plug and second
        smart_homes_data.write(
            Path(data) / "readings", homes=arguments.homes, seconds=seconds, files=arguments.files, seed=arguments.seed
        )
        history = smart_homes_data.generate(1, 3_000, seed=arguments.seed + 1, start=START)
        models = smart_homes_data.train(smart_homes_data.histories(smart_homes_data.measurements(history)))
        (Path(data) / "models.pickle").write_bytes(pickle.dumps(models))
        speedups("smart_homes", for_each_parallelism("benchmarks.smart_homes", arguments, Path(data)))


if __name__ == "__main__":
    main()

"""Seeded measurements of smart plugs, and regression trees that are trained on them.

    python -m examples.smart_homes_data DIR [--homes N] [--seconds N] [--files N] [--seed S]
    python -m examples.smart_homes_data --train [--seconds N]      # writes examples/smart_homes_trees.json

A home has 3 households of 8 plugs. A plug measures its load about every two seconds, with several measurements of one second,
gaps, and outages of more than ``MAX_GAP``; each measurement of load (W) comes with one of work (kWh). The load follows the type
of the device: a level, a cycle of switching on and off, and a daily course. A seed changes times and noise, not the devices.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.home_energy import Average, Measurement, Plug, device_of
from examples.smart_homes import AHEAD, TREES, Past, averages, features_of, remember, write_trees
from tracetypes import Item, check, interpret_rows
from tracetypes.stdlib import RegressionTree, tree_of

if TYPE_CHECKING:
    import pyarrow

START = 1_377_986_400
"""The first second, since the epoch."""

HOUSEHOLDS, PLUGS = 3, 8
"""Households of a home, and plugs of a household."""

LEVEL = {"air conditioner": 1_200, "fridge": 90, "heater": 1_800, "lamp": 40, "screen": 70, "washer": 500}
CYCLE = {"air conditioner": 900, "fridge": 1_500, "heater": 1_200, "lamp": 7_200, "screen": 5_400, "washer": 3_600}
"""Watts when on, and seconds from one switching on to the next."""


def generate(homes: int, seconds: int, seed: int = 1, start: int = START) -> pyarrow.Table:
    """Measurements in the order of their times, with the columns of ``Measurement``."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(seed)
    columns: list[list[Any]] = [[] for _ in range(6)]
    for house in range(homes):
        for household in range(HOUSEHOLDS):
            for plug in range(PLUGS):
                device = device_of(Plug(house, household, plug))
                steps = chance.choice([0, 1, 2, 2, 2, 3, 4], seconds // 2 + 1)
                steps[chance.random(len(steps)) < 0.002] = 25
                at = start + np.cumsum(steps)
                at = at[at < start + seconds]
                nature = np.random.default_rng((house, household, plug))  # the same at every seed
                phase, level = nature.random(), LEVEL[device] * nature.uniform(0.8, 1.2)
                on = (at / CYCLE[device] + phase) % 1 < 0.5
                daily = 1 + 0.4 * np.sin(2 * np.pi * (at % 86_400) / 86_400)
                watts = np.round(on * level * daily * chance.uniform(0.95, 1.05, len(at)), 3)
                work = np.round(np.cumsum(watts) * 2 / 3_600_000, 3)
                for column, values in zip(
                    columns,
                    (
                        np.repeat(at, 2),
                        np.stack([watts, work], axis=1).ravel(),
                        np.tile([1, 0], len(at)),
                        *(np.full(2 * len(at), number) for number in (plug, household, house)),
                    ),
                    strict=True,
                ):
                    column.append(values)
    joined = [np.concatenate(column) for column in columns]
    order = np.argsort(joined[0], kind="stable")
    names = ["timestamp", "value", "property", "plug", "household", "house"]
    return pa.table({name: column[order] for name, column in zip(names, joined, strict=True)})


def write(directory: Path, *, homes: int, seconds: int, files: int = 8, seed: int = 1) -> int:
    """Write measurements to Parquet files, each a span of time; how many."""
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    table = generate(homes, seconds, seed)
    bounds = table["timestamp"].to_numpy().searchsorted([START + seconds * n // files for n in range(files + 1)])
    for n in range(files):
        path = directory / f"part-{n:05d}.parquet"
        pq.write_table(table.slice(bounds[n], bounds[n + 1] - bounds[n]), path)
        os.utime(path, (START + n, START + n))  # files are taken in the order of these times
    return int(table.num_rows)


def measurements(table: pyarrow.Table) -> list[Measurement]:
    """Rows of a table."""
    return [Measurement(*row.values()) for row in table.to_pylist()]


Features = tuple[float, float, float]
Examples = tuple[list[Features], list[float]]
"""Features, and what was consumed in the ten minutes behind each (Wh)."""


def examples_of(history: list[Average]) -> Examples:
    """What can be learned from the averages of a type of device, in the order of time."""
    watts = {one.ts: one.watts for one in history}
    until, running = {}, 0.0
    for ts in range(history[0].ts, history[-1].ts + 1):
        running += watts.get(ts, 0.0)
        until[ts] = running
    known: list[Features] = []
    consumed: list[float] = []
    past: Past = ()
    for one in history:
        past = remember(past, one)
        if one.ts + AHEAD in until:
            known.append(features_of(past))
            consumed.append((until[one.ts + AHEAD] - until[one.ts]) / 3_600)
    return known, consumed


def histories(rows: list[Measurement]) -> dict[str, list[Average]]:
    """The averages of each type of device, in the order of time."""
    (trace,) = interpret_rows(check(averages()), {"readings": rows})[0].values()
    found: dict[str, list[Average]] = {}
    for one in trace:
        if isinstance(one, Item):
            found.setdefault(one.key, []).append(one.value)
    return dict(sorted(found.items()))


def train(history: Mapping[str, list[Average]], leaves: int = 24) -> dict[str, Any]:
    """A ``sklearn.tree.DecisionTreeRegressor`` for each type of device.

    The paper uses REPTree of Weka: a regression tree too, which is pruned by held-out data; here leaves are limited.
    """
    from sklearn.tree import DecisionTreeRegressor

    return {
        device: DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=0).fit(*examples_of(series))
        for device, series in history.items()
    }


def trees_of(models: Mapping[str, Any]) -> dict[str, RegressionTree]:
    """All trees as plain arrays."""
    return {device: tree_of(model) for device, model in models.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--homes", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="write the trees of examples/smart_homes.py")
    given = parser.parse_args()
    if given.train:
        history = histories(measurements(generate(given.homes or 1, given.seconds or 10_800, seed=7)))
        write_trees(TREES, trees_of(train(history)))
        print(f"trees for {len(history)} types of devices in {TREES}")
    if given.directory is not None:
        count = write(
            given.directory, homes=given.homes or 10, seconds=given.seconds or 300, files=given.files, seed=given.seed
        )
        print(f"{count:,} measurements in {given.directory}")


if __name__ == "__main__":
    main()

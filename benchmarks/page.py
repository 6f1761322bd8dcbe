"""The page of a service: how soon it is there, and how long an update takes. Its processor seconds against the process tree's.

::

    python -m benchmarks.page --operators 3 500 --pictures FOLDER
    python -m benchmarks.page --costs --seconds 30

Each prints a line of JSON. ``cold``: seconds from the navigation of a browser until all boxes are painted, the longest of three.
``update_ms``: milliseconds for an update. It is the sum of ``server_ms``, until the service has made and sent the whole page (an
update sends less), and ``browser_ms``, from the event until it is painted: medians, and for ``update_ms_most`` the greatest. Some
seconds before each look rows come, so that figures change. ``load``: of the machine meanwhile. ``--costs``: the sum of what the
page says of flows, of flows that have left and of no operator, beside the processor time of the process tree as Linux counts it.
It needs Debian's chromium and chromium-driver, and selenium.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from tracetypes.compiler.workspace.service.process_tree import tree_seconds
from tracetypes.workspace_client import WorkspaceClient

REGISTRY = """
[inputs.clicks]
address = "clicks"
record = "shop:Click"
key = "user"
markers = {seconds = 60, time = "ts"}

[limits]
flows = 1000
changes = 1000000
requests = 1000000
"""

CLICK = "import attrs\n\n@attrs.frozen\nclass Click:\n    user: str\n    ts: int\n    cents: int\n"

LOOKS = 6
"""Updates that are measured."""


FILTERS = 6
"""Of a flow, where many operators are asked for."""


def flow(number: int, filters: int = 0) -> dict[str, Any]:
    """A source that all share, a function, filters, a window and a sink, which nobody shares."""
    window = {"aggregate": {"type": "sum", "config": {"to": {"type": "int"}}}, "size": 60 * (number + 1)}
    tasks = [
        {"id": "clicks", "type": "source", "config": {"input": "clicks"}},
        {"id": "cents", "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}},
        *(
            {"id": f"most{one}", "type": "filter", "config": {"predicate": {"above": -1 - number * FILTERS - one}}}
            for one in range(filters)
        ),
        {"id": "spent", "type": "tumbling", "config": window},
        {"id": "out", "type": "sink", "config": {"output": f"out{number}"}},
    ]
    return {"tasks": tasks, "streams": [[above["id"], below["id"]] for above, below in itertools.pairwise(tasks)]}


class Served:
    """A service that runs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "registry.toml").write_text(REGISTRY)
        (folder / "shop.py").write_text(CLICK)
        (folder / "clicks").mkdir()
        self._files = 0
        self.add_rows(1_000)
        command = [sys.executable, "-m", "tracetypes", "workspace", "serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.address = next(found.group() for line in self.process.stderr if (found := re.search(r"http://[\d.:]+\d", line)))

    def add_rows(self, count: int) -> None:
        """A file with rows, each a second later."""
        begin = self._files * 10_000
        lines = (json.dumps({"user": f"u{n % 50}", "ts": begin + n, "cents": n % 7}) for n in range(count))
        place = self.folder / "clicks" / f".{self._files}"
        place.write_text("".join(f"{line}\n" for line in lines))
        place.rename(place.with_name(f"{self._files:06}.jsonl"))
        self._files += 1

    def client(self, owner: str | None = None) -> tuple[WorkspaceClient, str]:
        """A client, of the administrator or of an owner, and its token."""
        token = (self.folder / "private" / "administrator.token").read_text().strip()
        if owner is not None:
            with WorkspaceClient(self.address, token) as administrator:
                token = administrator.make_token(owner).token
        return WorkspaceClient(self.address, token), token


@contextmanager
def served() -> Iterator[Served]:
    """A service in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        found = Served(Path(folder))
        try:
            yield found
        finally:
            found.process.terminate()
            found.process.communicate()


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for one in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(one)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"), log_output=subprocess.DEVNULL)
    found = webdriver.Chrome(options=options, service=service)
    found.set_script_timeout(120)
    try:
        yield found
    finally:
        found.quit()


PAINTED = """
const [least, done] = arguments;
const look = () => {
  if (document.querySelectorAll('#graph [data-piece]').length >= least)
    requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000)));
  else setTimeout(look, 5);
};
look();
"""

WATCH = """
const show_it = show;
window.took = [];
show = (news) => {
  const begin = performance.now();
  show_it(news);
  requestAnimationFrame(() => setTimeout(() => window.took.push(performance.now() - begin)));
};
"""


def measure(service: Served, chrome: Any, owner: str, operators: int, pictures: Path | None) -> dict[str, Any]:
    """The page with at least so many operators."""
    client, token = service.client(owner)
    with client:
        flows, filters = 0, FILTERS if operators > 50 else 0
        while flows == 0 or 1 + (3 + filters) * flows < operators:
            client.submit(f"f{flows}", flow(flows, filters))
            flows += 1
        wait_for(client)
        with httpx.Client(base_url=service.address, timeout=60) as page:
            page.post("/page/session", json={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})
            chrome.get(service.address)
            chrome.delete_all_cookies()
            cookie = {"name": "tracetypes", "value": token, "path": "/page", "httpOnly": True, "sameSite": "Strict"}
            chrome.add_cookie(cookie)
            colds, servers = [], []
            for _ in range(3):
                chrome.get(service.address)
                colds.append(chrome.execute_async_script(PAINTED, 1 + (3 + filters) * flows))
            chrome.execute_script(WATCH)
            for _ in range(LOOKS):
                service.add_rows(100)
                time.sleep(3.0)
                begin = time.perf_counter()
                with page.stream("GET", "/page/events") as answer:
                    size = next(len(line) for line in answer.iter_lines() if line.startswith("data:"))
                servers.append(1000 * (time.perf_counter() - begin))
            took = chrome.execute_script("return window.took")
        boxes = chrome.execute_script("return document.querySelectorAll('#graph [data-piece]').length")
        if pictures is not None:
            take(chrome, pictures, boxes)
    found = {"server_ms": median(servers), "browser_ms": median(took), "update_ms": median(servers) + median(took)}
    found |= {"update_ms_most": max(servers) + max(took)}
    rounded = {"cold": round(max(colds), 3), **{name: round(one, 1) for name, one in found.items()}}
    return {"operators": boxes, "flows": flows, **rounded, "updates": len(took), "page_bytes": size, "load": os.getloadavg()[0]}


def wait_for(client: WorkspaceClient) -> None:
    """Wait until all flows run."""
    while any(one.state != "running" for one in client.flows()):
        time.sleep(0.2)


def take(chrome: Any, folder: Path, boxes: int) -> None:
    """Pictures in light and dark, and of a narrow screen."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme, width in (("light", 1400), ("dark", 1400), ("light", 400)):
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        time.sleep(0.3)
        chrome.save_screenshot(str(folder / f"page_{boxes}_{scheme}_{width}.png"))
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def costs(service: Served, seconds: float) -> dict[str, Any]:
    """What the page of an administrator says, beside what Linux says of the process tree. Rows come all the time."""
    client, _ = service.client("ann")
    administrator, token = service.client()
    with client, administrator, httpx.Client(base_url=service.address, timeout=60) as page:
        page.post("/page/session", json={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})
        for number in range(8):
            client.submit(f"f{number}", flow(number))
        wait_for(client)
        before, tree = amounts(page), tree_of(service)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            service.add_rows(10_000)
            time.sleep(0.25)
        client.remove("f7", purge=True)  # what it has used belongs to a flow that has left
        time.sleep(1)
        after, used = amounts(page), tree_of(service)
    found = {name: after[name] - before[name] for name in after}
    parts = {name: round(found[name], 2) for name in ("flows", "left", "workers", "http")}
    total, used = sum(parts.values()), used - tree
    answer = {**parts, "sum": round(total, 2), "tree": round(used, 2), "sum_of_tree": round(total / used, 3)}
    return {**answer, "no_operator": round((parts["workers"] + parts["http"]) / total, 3)}


def tree_of(service: Served) -> float:
    found = tree_seconds(service.process.pid)
    assert found is not None
    return found.own + found.below


def amounts(page: httpx.Client) -> dict[str, float]:
    """The processor seconds that a page shows, by line; ``flows`` is the sum of the column of all flows."""
    time.sleep(1)
    with page.stream("GET", "/page/events") as answer:
        tables = next(json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:"))["parts"]["tables"]
    found = {name: number(one) for name, one in re.findall(r'"row 3 (\w+)".*?data-name="seconds">([^<]*) s<', tables)}
    of_flows = re.findall(r'<tr data-piece="row 0 .*?data-name="processor">([^<]*) s<', tables)
    return {**found, "flows": sum(map(number, of_flows))}


def number(text: str) -> float:
    return float(text.replace(",", ""))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, nargs="+", default=[4, 500])
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    parser.add_argument("--costs", action="store_true", help="compare processor seconds instead")
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args(arguments)
    with served() as service:
        if given.costs:
            print(json.dumps({"benchmark": "page --costs", **costs(service, given.seconds)}), flush=True)
            return
        with browser() as chrome:
            for count in given.operators:
                owner = f"owner{count}"
                print(json.dumps({"benchmark": "page", **measure(service, chrome, owner, count, given.pictures)}), flush=True)


if __name__ == "__main__":
    main()

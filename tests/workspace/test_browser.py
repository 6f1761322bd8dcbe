"""Both pages in a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracetypes
from tests.workspace.test_run_page import ROWS, clicks_of, write
from tracetypes.workspace_client import WorkspaceClient

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="chromium and chromedriver are not installed")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys

REGISTRY = """
[inputs.clicks]
address = "clicks"
record = "shop:Click"
key = "user"
markers = {seconds = 60, time = "ts"}
"""

CLICK = """
import attrs

@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int
"""


def flow(output: str, size: int) -> dict[str, Any]:
    window = {"aggregate": {"type": "sum", "config": {"to": {"type": "int"}}}, "size": size}
    tasks = [
        {"id": "clicks", "type": "source", "config": {"input": "clicks"}},
        {"id": "cents", "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}},
        {"id": "spent", "type": "tumbling", "config": window},
        {"id": "out", "type": "sink", "config": {"output": output}},
    ]
    return {"tasks": tasks, "streams": [["clicks", "cents"], ["cents", "spent"], ["spent", "out"]]}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    home = tmp_path_factory.mktemp("browser")
    for one in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--user-data-dir={home}"):
        options.add_argument(one)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER, log_output=subprocess.DEVNULL)
    found = webdriver.Chrome(options=options, service=service)
    found.set_script_timeout(20)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of a service, and its address."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "registry.toml").write_text(REGISTRY)
    (folder / "shop.py").write_text(CLICK)
    write(folder / "clicks", "1.jsonl", ROWS)
    command = [sys.executable, "-m", "tracetypes", "workspace", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(found.group() for line in process.stderr if (found := re.search(r"http://127.0.0.1:\d+", line)))
        yield folder, address
        process.terminate()
        process.stderr.read()


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """What a function gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def boxes(browser: Any) -> list[str]:
    """The titles of the boxes that are there."""
    script = "return [...document.querySelectorAll('#graph [data-piece] .tt-title')].map(one => one.textContent)"
    found: list[str] = browser.execute_script(script)
    return found


def text(browser: Any, selector: str) -> str:
    """Of an element, also while it is drawn again."""
    found: str = browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
    return found


def faded(browser: Any) -> int:
    count: int = browser.execute_script("return document.querySelectorAll('#graph .tt-faded').length")
    return count


def press(browser: Any, *keys: str) -> None:
    webdriver.ActionChains(browser).send_keys(*keys).perform()


def focused(browser: Any) -> str:
    name: str = browser.execute_script("return document.activeElement.dataset.piece ?? document.activeElement.id")
    return name


def said(browser: Any) -> list[str]:
    """What the browser complains of: a violation of the policy, an error of the script, or a file that is not there."""
    log = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    return [one for one in log if "/favicon.ico" not in one]


def check_looks(browser: Any) -> None:
    """Of either page: dark and light, and no sideways scrolling of the whole page on a narrow screen."""
    colours = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        script = "const of = (one, what) => getComputedStyle(document.querySelector(one))[what];"
        script += "return [of('.tt-ground', 'fill'), of('.tt-title', 'fill'), of('body', 'color')]"
        colours.append(browser.execute_script(script))
    assert all(light != dark for light, dark in zip(*colours, strict=True))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    for width in (320, 1200):
        size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wide = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1] == width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.find_element("id", "fit").click()
    wide = browser.execute_script("return [part('graph').scrollWidth, part('graph').clientWidth]")
    assert wide[0] <= wide[1]  # the whole graph is seen
    browser.find_element("id", "fit").click()


def test_the_page_of_a_workspace(browser: Any, folder: tuple[Path, str]) -> None:
    place, address = folder
    with WorkspaceClient(address, (place / "private" / "administrator.token").read_text()) as administrator:
        token = administrator.make_token("ann").token
    with WorkspaceClient(address, token) as ann:
        ann.submit("spent", flow("spent", 60))
        browser.get(address)
        field = until(lambda: next((one for one in browser.find_elements("id", "token") if one.is_displayed()), None))
        field.send_keys("wrong\n")
        until(lambda: "no such token" in text(browser, "#problem"))
        field.send_keys(f"{token}\n")
        until(lambda: len(boxes(browser)) == 4)
        assert boxes(browser)[0] == "source 'clicks'"
        assert token not in browser.page_source
        assert browser.execute_script("return document.cookie") == ""
        before = browser.execute_script("return document.querySelector('[data-piece=\"box 0\"] rect').outerHTML")

        ann.submit("wide", flow("wide", 120))  # it appears, and nothing else moves
        until(lambda: len(boxes(browser)) == 7)
        assert browser.execute_script("return document.querySelector('[data-piece=\"box 0\"] rect').outerHTML") == before
        until(lambda: "2 flows" in text(browser, "#graph"))

        press(browser, "/")
        assert focused(browser) == "filter"
        press(browser, "wide")
        assert faded(browser) == 3  # all of `spent` but the source
        script = "return [...document.querySelector('#tables tbody').rows].filter(one => !one.hidden)"
        script += ".map(one => one.cells[0].textContent.trim())"
        assert browser.execute_script(script) == ["wide"]
        press(browser, Keys.ESCAPE)
        assert faded(browser) == 0

        browser.execute_script("document.querySelector('[data-piece=\"box 0\"]').focus()")
        press(browser, Keys.ARROW_DOWN)
        below = focused(browser)
        assert below not in ("box 0", "graph")
        write(place / "clicks", "2.jsonl", [{"user": "bob", "ts": 900, "cents": 1}])
        until(lambda: "81" in text(browser, "[data-piece='box 0']"))
        assert focused(browser) == below  # also when its box is drawn again
        press(browser, Keys.ARROW_UP)
        assert focused(browser) == "box 0"

        check_looks(browser)
        for name in ("spent", "wide"):
            ann.remove(name, purge=True)
        until(lambda: not boxes(browser))
    browser.find_element("id", "logout").click()
    until(lambda: browser.find_element("id", "token").is_displayed())
    complaints = [one for one in said(browser) if "401" not in one]  # without a token
    assert complaints == []


def test_the_page_of_a_run(browser: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", "1.jsonl", [*ROWS, "{"])
    places: Any = {"clicks": tmp_path / "in"}, {"totals": tmp_path / "totals", "visits": []}
    run = tracetypes.start(clicks_of(), *places, backend="local", page=True)
    assert run.page is not None
    browser.get(run.page)
    until(lambda: "gate" in boxes(browser))
    assert not browser.find_element("id", "login").is_displayed()
    until(lambda: "1 rejected" in text(browser, "#graph"))
    assert browser.title.startswith("shop: running")
    write(tmp_path / "in", "2.jsonl", [{"user": "bob", "ts": 900, "cents": 1}])
    until(lambda: "82 rows" in browser.title)
    filter = browser.find_element("id", "filter")
    filter.send_keys("visits")
    assert 0 < faded(browser) < len(boxes(browser))
    check_looks(browser)
    assert said(browser) == []
    run.drain()
    until(lambda: "over" in text(browser, "#live"))
    assert browser.title.startswith("shop: over")
    assert said(browser) == []

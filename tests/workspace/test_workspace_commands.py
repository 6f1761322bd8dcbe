"""``tracetypes workspace ACTION`` against a service that runs: what is printed, and what a wrong command says."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.pages import ROOT, blocks
from tracetypes.cli import main

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")

SHOP = '''
import attrs

@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int
'''

REGISTRY = '''
[inputs.clicks]
address = "clicks"
record = "shop:Click"
key = "user"
markers = {seconds = 60, time = "ts"}
'''


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service in the folder ``shop``, as the page makes it."""
    home = tmp_path_factory.mktemp("home")
    (home / "shop" / "clicks").mkdir(parents=True)
    rows = [{"user": "ann", "ts": ts, "cents": 5} for ts in (1, 70, 400)]
    (home / "shop" / "clicks" / "1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (home / "shop" / "shop.py").write_text(SHOP)
    (home / "shop" / "registry.toml").write_text(REGISTRY)
    (home / "flow.json").write_text(blocks(PAGE, "json")[0])
    command = [sys.executable, "-m", "tracetypes", "workspace", "serve", "shop", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=home)
    assert process.stderr is not None
    assert "administrator.token" in process.stderr.readline()
    found = re.search(r"at (http://127.0.0.1:\d+)", process.stderr.readline())
    assert found is not None
    yield f"{found.group(1)} {home}"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.fixture
def said(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Runs a command in the folder of the page. Gives its status and what it printed."""
    address, home = url.split(" ")
    monkeypatch.chdir(home)
    monkeypatch.setenv("TRACETYPES_WORKSPACE", address)

    def run(command: str) -> tuple[int, str, str]:
        status = main(["workspace", *shlex.split(command)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_the_session_of_the_page(said: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    status, token, about = said("token --new ann --token-file shop/private/administrator.token")
    assert (status, "not shown again" in about) == (0, True)
    monkeypatch.setenv("TRACETYPES_TOKEN", token.strip())
    session = blocks(PAGE, "console")[1]
    report = re.search(r"--dry-run\n(.*)\n", session)
    assert report is not None
    assert said("submit spent flow.json --dry-run") == (0, report.group(1) + "\n", "")
    status, printed, _ = said("submit spent flow.json")
    assert (status, re.sub(r"\d+ rows", "0 rows", printed)) == (0, "spent: running, 4 operators, 0 of them shared, 0 rows\n")
    end = time.monotonic() + 30
    while not (rows := said("outputs spent totals")[1]):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert json.loads(rows) == {"key": "ann", "value": 10, "until": "1970-01-01T00:05:00.000000Z"}
    assert said("list")[1].splitlines()[1].split() == ["spent", "ann", "running", "4", "0", "3"]
    listed, shown = json.loads(said("list --json")[1])[0], json.loads(said("show spent --json")[1])
    # The flow runs, so it has used more processor time by the second call.
    assert 0 < listed.pop("seconds") <= shown.pop("seconds")
    assert listed == shown
    assert said("show spent")[1].startswith("spent: running, 4 operators")
    assert re.fullmatch(r"totals: 1 files, \d+ bytes, in spent\n", said("outputs spent")[1])
    assert "inputs: clicks" in said("list --catalog")[1]
    assert re.fullmatch(r"[0-9a-f]{12}  ann  owner  until \d{4}-\d\d-\d\d\n", id := said("token")[1])
    assert said("remove spent --drain --purge") == (0, "spent: removed\n", "")
    assert said(f"token --revoke {id[:12]}") == (0, f"{id[:12]}: revoked\n", "")
    assert said("list")[0] == 1


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("submit spent nowhere.json", 2, "TT402"),
        ("submit spent flow.json --start soon", 1, "TT402"),
        ("submit ../x flow.json", 1, "TT410"),
        ("submit spent shop:flow", 1, "TT422"),
        ("show nobody", 1, "TT402"),
        ("remove nobody", 1, "TT402"),
        ("list --token-file nowhere", 2, "TT415"),
        ("list --url http://127.0.0.1:1", 2, "TT420"),
        ("list --tokn x", 2, "TT402"),
        ("token --new ann", 1, "TT415"),
        ("serve shop --host 0.0.0.0", 2, "TT421"),
        ("serve shop --certificate x", 2, "TT402"),
        ("serve shop --port 70000", 2, "TT402"),
        ("serve shop --port 0", 1, "TT221"),
    ],
)
def test_wrong_commands(
    said: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, command: str, status: int, text: str
) -> None:
    monkeypatch.setenv("TRACETYPES_TOKEN", said("token --new eve --token-file shop/private/administrator.token")[1].strip())
    found, printed, error = said(command)
    assert (found, printed) == (status, "")
    assert f"tracetypes: {text}" in error
    assert "fix:" in error


def test_what_is_no_service(said: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETYPES_TOKEN", "tt_1_x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer() -> None:
            server.settimeout(10)
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        status, _, error = said(f"list --url http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert (status, "TT420" in error) == (2, True)


def test_without_a_token(said: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACETYPES_TOKEN", raising=False)
    assert "TT415" in said("list")[2]

"""The service of a workspace: one real process on a port that the system chose, and clients of several owners.

Each point of the threat model in docs/service.md has a test here.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import httpx
import pytest

from tracetypes.compiler.workspace.service.accounts import Accounts, Token
from tracetypes.compiler.workspace.service.errors import Refused
from tracetypes.compiler.workspace.service.landlock import AVAILABLE
from tracetypes.compiler.workspace.service.places import place_below
from tracetypes.compiler.workspace.service.process_tree import tree_seconds
from tracetypes.compiler.workspace.service.registry import read_registry
from tracetypes.compiler.workspace.service.request_limits import depth_of
from tracetypes.compiler.workspace.service.server import Address, serve
from tracetypes.compiler.workspace.service.service import Service
from tracetypes.errors import UsageError
from tracetypes.workspace_client import RequestRefused, WorkspaceClient

OPERATORS = '''
from __future__ import annotations
import os
from itertools import repeat
from pathlib import Path
import attrs
from tracetypes import Emit, EmitValue, OpKeyedOrdered, OpStateless, sort

@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int

@attrs.frozen
class Tries(OpStateless[str, Click, str, str]):
    """Emits what a try ends with."""
    what: str
    path: str

    def on_item(self, key: str, value: Click, emit: Emit[str, str]) -> None:
        while self.what == "loop":
            pass
        try:
            emit(key, str(tried(self.what, self.path)))
        except BaseException as error:
            emit(key, type(error).__name__)

def tried(what: str, path: str) -> object:
    if what == "read":
        return Path(path).read_bytes()[:20]
    if what == "list":
        return os.listdir(path)
    if what == "environ":
        return Path(f"/proc/{os.getppid()}/environ").read_bytes()[:20]
    if what == "kill":
        return os.kill(os.getppid(), 0)
    if what == "link":
        return os.symlink("/etc", path)
    if what == "connect":
        import socket
        return socket.create_connection(("127.0.0.1", int(path)))
    if what == "exit":
        os._exit(3)
    while what == "catch":
        try:
            while True:
                pass
        except BaseException:
            pass
    if what == "freeze":
        return sum(repeat(0))
    if what == "memory":
        return len(bytearray(64 << 30))
    return sorted(os.environ)

def tries(what: str, path: str = "") -> Tries:
    return Tries(what, path)

@attrs.frozen
class Ends(OpKeyedOrdered[str, int, int, int]):
    """What happens when the first value comes."""
    what: str

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[int]) -> int:
        tried(self.what, "")
        return state

def ends(what: str):
    return lambda stream: stream.through(sort(by=lambda value: value)).through(Ends(what))
'''

OWN_CODE = '''
import attrs
from hostile import Click, tried
from tracetypes import Dataflow, Emit, OpStateless, U, every

@attrs.frozen
class TriesAll(OpStateless[str, Click, str, str]):
    tries: tuple[tuple[str, str], ...]

    def on_item(self, key: str, value: Click, emit: Emit[str, str]) -> None:
        for number, (what, path) in enumerate(self.tries):
            try:
                emit(key, f"{number} {tried(what, path)}")
            except BaseException as error:
                emit(key, f"{number} {type(error).__name__}")

def flow(*tries):
    found = Dataflow("own")
    markers = every(seconds=60, time=lambda click: click.ts)
    clicks = found.source("clicks", U[str, Click], key=lambda click: click.user, markers=markers)
    found.sink("out", clicks.through(TriesAll(tries)))
    return found
'''

REGISTRY = '''
[operators]
tries = "hostile:tries"
ends = "hostile:ends"

[inputs.clicks]
address = "clicks"
record = "hostile:Click"
key = "user"
markers = {seconds = 60, time = "ts"}

[inputs.secret]
address = "secret"
record = "hostile:Click"
markers = {seconds = 60, time = "ts"}
owners = ["carl"]

[owners.open]
open = true

[owners.carl]
folder = "code_of_carl"
packages = ["flows_of_carl"]

[limits]
body = 20000
tasks = 20
flows = 4
changes = 100000
requests = 100000
memory = 4000000000
seconds = 5
'''

CLICKS = {"id": "clicks", "type": "source", "config": {"input": "clicks"}}
CENTS = {"id": "cents", "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}}


def chain(*tasks: Any) -> dict[str, Any]:
    streams = [list(pair) for pair in itertools.pairwise(one["id"] for one in tasks)]
    return {"tasks": [dict(one) for one in tasks], "streams": streams}


def totals(output: str = "totals", size: int = 60) -> dict[str, Any]:
    """The sum of the cents of a user in a window."""
    config = {"aggregate": {"type": "sum", "config": {"to": {"type": "int"}}}, "size": size}
    window = {"id": "spent", "type": "tumbling", "config": config}
    return chain(CLICKS, CENTS, window, {"id": "out", "type": "sink", "config": {"output": output, "marker": "at"}})


def tries(what: str, path: str = "") -> dict[str, Any]:
    """A flow whose operator tries something."""
    sink = {"id": "out", "type": "sink", "config": {"output": what}}
    return chain(CLICKS, {"id": "tries", "type": "tries", "config": {"what": what, "path": path}}, sink)


@attrs.frozen(eq=False)
class Served:
    """A service that runs. ``port``: where."""

    folder: Path
    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def administrator(self) -> WorkspaceClient:
        return WorkspaceClient(self.url, (self.folder / "private" / "administrator.token").read_text())

    def of(self, owner: str, role: str = "owner") -> WorkspaceClient:
        """A client with a new token."""
        with self.administrator() as client:
            return WorkspaceClient(self.url, client.make_token(owner, role).token)

    def stop(self) -> str:
        """Stop it. Returns what it said."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=60)
        return said


def start(folder: Path) -> Served:
    command = [sys.executable, "-m", "tracetypes", "workspace", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"at http://127.0.0.1:(\d+)", line):
            return Served(folder, process, int(found.group(1)))
    raise AssertionError("it did not start")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "hostile.py").write_text(OPERATORS)
    (folder / "registry.toml").write_text(REGISTRY)
    (folder / "code_of_carl").mkdir()
    (folder / "code_of_carl" / "hostile.py").write_text(OPERATORS)
    for place in ("clicks", "secret"):
        (folder / place).mkdir()
        rows = [{"user": "u", "ts": ts, "cents": 5} for ts in (10, 20, 70, 130)]
        (folder / place / "1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    served = start(folder)
    tries = [
        ("read", str(folder / "private" / "service.db")),
        ("list", str(folder / "private")),
        ("list", str(folder / "outputs")),
        ("read", str(folder / "secret" / "1.jsonl")),
        ("read", str(folder / "registry.toml")),
        ("environ", ""),
        ("kill", ""),
        ("link", str(folder / "outputs" / "carl" / "link")),
        ("connect", str(served.port)),
        ("environment", ""),
    ]
    code = f"{OWN_CODE}\nown = flow(*{tries!r})\nno_flow = 3\n"
    (folder / "code_of_carl" / "flows_of_carl.py").write_text(code)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service in which a call may last for two seconds."""
    folder = tmp_path_factory.mktemp("stopping")
    (folder / "hostile.py").write_text(OPERATORS)
    (folder / "registry.toml").write_text(REGISTRY.replace("\nseconds = 5", "\nseconds = 2"))
    (folder / "clicks").mkdir()
    rows = [{"user": "u", "ts": ts, "cents": 5} for ts in (10, 20, 70, 130)]
    (folder / "clicks" / "1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    served = start(folder)
    yield served
    served.stop()


@pytest.fixture
def owner_of(stopping: Served) -> Iterator[Callable[[str], WorkspaceClient]]:
    """Makes clients."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(stopping.of(name))


@pytest.fixture
def owner(served: Served, request: pytest.FixtureRequest) -> Iterator[WorkspaceClient]:
    """A client of an owner of this test alone. His flows are removed in the end."""
    name = re.sub(r"\W", "_", request.node.name)[:50]
    with served.of(name) as client:
        yield client
        for one in client.flows():
            client.remove(one.name, purge=True)


@pytest.fixture
def other(served: Served) -> Iterator[WorkspaceClient]:
    """A second owner."""
    with served.of("other") as client:
        yield client
        for one in client.flows():
            client.remove(one.name, purge=True)


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """What a function gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def refused(call: Callable[[], Any]) -> RequestRefused:
    with pytest.raises(RequestRefused) as raised:
        call()
    assert raised.value.message
    assert raised.value.fix or raised.value.problems
    return raised.value


def rows(client: WorkspaceClient, name: str, sink: str = "out") -> list[Any]:
    found: list[Any] = until(lambda: [one["value"] for one in client.rows(name, sink)])
    return found


# --------------------------------------------------------------------------------------------------------- flows


def test_a_flow_is_submitted_shown_replaced_and_removed(served: Served, owner: WorkspaceClient) -> None:
    made = owner.submit("spent", totals())
    assert made.state in ("starting", "running")
    assert (made.operators, made.kind, made.outputs) == (4, "json", {"out": "totals"})
    assert owner.wait_until_started("spent").state == "running"
    assert rows(owner, "spent") == [10, 5]
    assert [one.name for one in owner.flows()] == ["spent"]
    assert owner.replace("spent", totals("wide", 120), backfill=True).outputs == {"out": "wide"}
    assert rows(owner, "spent") == [15]
    owner.remove("spent", drain=True, purge=True)
    assert owner.flows() == []
    assert refused(lambda: owner.flow("spent")).status == 404


def test_a_dry_run_starts_nothing(owner: WorkspaceClient) -> None:
    report = owner.dry_run("spent", totals())
    assert report.start == ("source 'clicks'", "map_values", "tumbling", "sink 'out'")
    assert (report.shared, report.segments) == ((), 3)
    assert owner.flows() == []
    owner.submit("spent", totals())
    report = owner.dry_run("again", totals("again", 120))
    assert [flows for _, flows in report.shared] == [("spent",)] * (4 - len(report.start))
    assert "spent" in str(report)


def test_what_two_owners_have_in_common_runs_once(owner: WorkspaceClient, other: WorkspaceClient) -> None:
    owner.submit("spent", totals())
    assert other.submit("mine", totals()).shared == 3
    assert until(lambda: owner.flow("spent").shared) == 3


def test_all_problems_of_a_flow_come_at_once(owner: WorkspaceClient) -> None:
    wrong = totals()
    wrong["tasks"][1]["config"] = {"function": {"field": "euros"}, "to": {"type": "int"}}
    wrong["tasks"][3]["config"] = {"output": 3}
    found = refused(lambda: owner.submit("spent", wrong))
    assert (found.status, found.code) == (422, "TT410")
    assert [(one["code"], one["task"]) for one in found.problems] == [("TT413", "cents"), ("TT413", "out")]
    assert "euros" in str(found)
    assert owner.flows() == []


def test_idempotency_keys(served: Served, owner: WorkspaceClient) -> None:
    def post(key: str, name: str = "spent") -> httpx.Response:
        body = {"name": name, "flow": totals(name)}
        return owner._http.post("/v1/flows", json=body, headers={"Idempotency-Key": key})

    first = post("one")
    assert first.status_code == 201
    assert (post("one").status_code, post("one").json()) == (201, first.json())
    assert post("two").status_code == 409
    other = post("one", "other")
    assert (other.status_code, other.json()["code"]) == (409, "TT418")
    gone = [owner._http.delete("/v1/flows/spent", headers={"Idempotency-Key": "gone"}).status_code for _ in range(2)]
    assert gone == [200, 200]
    assert post("three").status_code == 201  # a key that was refused can be tried again
    with served.administrator() as administrator:
        assert [(one["action"], one["outcome"]) for one in administrator.audit(2)] == [("submit", "done"), ("remove", "done")]


def test_metrics_health_and_the_description(served: Served, owner: WorkspaceClient, other: WorkspaceClient) -> None:
    owner.submit("spent", totals())
    rows(owner, "spent")
    assert until(lambda: re.search(r'tracetypes_flow_rows\{owner="[^"]*",flow="spent"\} 4\n', owner.metrics()))
    assert "spent" not in other.metrics()
    with served.administrator() as administrator:
        assert 'tracetypes_worker_ready{worker="json"} 1' in administrator.metrics()
    assert httpx.get(f"{served.url}/healthz").json() == {"status": "ok"}
    assert owner.is_ready()
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    assert set(paths["/v1/flows/{name}"]) == {"get", "put", "delete"}
    assert owner.catalog()["inputs"] == ["clicks"]


def test_events_tell_of_changes(served: Served, owner: WorkspaceClient) -> None:
    with owner._http.stream("GET", "/v1/events") as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data:"))
        assert json.loads(next(lines)[5:]) == []
        owner.submit("spent", totals())
        assert json.loads(next(lines)[5:])[0]["name"] == "spent"


# ---------------------------------------------------------------------------------------------------------- page


@contextmanager
def browser(served: Served, client: WorkspaceClient) -> Iterator[httpx.Client]:
    """A browser that has given its token."""
    text = client._http.headers["Authorization"].partition(" ")[2]
    with httpx.Client(base_url=served.url) as found:
        answer = found.post("/page/session", json={"token": text}, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 204
        assert {"HttpOnly", "Path=/page", "SameSite=strict"} <= set(answer.headers["Set-Cookie"].split("; "))
        yield found


def shown(page: httpx.Client) -> dict[str, str]:
    """What the page shows first."""
    with page.stream("GET", "/page/events") as answer:
        assert answer.status_code == 200
        found: dict[str, str] = json.loads(next(line for line in answer.iter_lines() if line.startswith("data:"))[5:])["parts"]
        return found


def test_the_page_shows_the_merged_graph(served: Served, owner: WorkspaceClient, other: WorkspaceClient) -> None:
    owner.submit("mine", totals())
    rows(owner, "mine")
    other.submit("his", totals())
    other.submit("alone", totals("alone", 120))
    with browser(served, owner) as page, browser(served, other) as others:
        first, second = shown(page), shown(others)
        assert [part.count("<g ") for part in (first["graph"], second["graph"])] == [4, 7]  # one is a copy
        assert "3 flows" in first["graph"]  # the source
        assert "1 of other owners" in first["graph"]
        assert re.findall(r'<tr data-piece="row 0 ([^"]*)"', first["tables"]) == ["mine"]
        assert sorted(re.findall(r'<tr data-piece="row 0 ([^"]*)"', second["tables"])) == ["alone", "his"]
        own = owner.flow("mine").owner
        assert not any(word in first["graph"] + first["tables"] for word in ("his", "alone", "other."))
        assert own not in second["graph"] + second["tables"]
        assert re.findall(r'data-piece="box (\d+)"', first["graph"]) == ["0", "1", "2", "3"]
    with served.administrator() as administrator, browser(served, administrator) as page:
        assert f"{own}.mine" in shown(page)["tables"]


def test_only_an_administrator_sees_what_belongs_to_no_operator(served: Served, owner: WorkspaceClient) -> None:
    owner.submit("mine", totals())
    rows(owner, "mine")
    with browser(served, owner) as page:
        tables = shown(page)["tables"]
        assert "Owners" not in tables
        assert "no operator" not in tables
    with served.administrator() as administrator, browser(served, administrator) as page:
        first = shown(page)
        assert "Owners" in first["tables"]
        cells = dict(re.findall(r'data-piece="row 3 (\w+)".*?data-name="seconds">([^<]*) s<', first["tables"]))
        assert set(cells) == {"flows", "left", "workers", "http", "all"}
        amounts = {name: float(one.replace(",", "")) for name, one in cells.items()}
        used = tree_seconds(served.process.pid)
        assert used is not None
        assert amounts["all"] <= used.own + used.below + 0.1
        assert amounts["workers"] > 0
        assert "tt-colour-" in first["graph"]


def test_the_cookie_of_the_page_changes_nothing(served: Served, owner: WorkspaceClient) -> None:
    with browser(served, owner) as page:
        (cookie,) = page.cookies.jar
        headers = {"Cookie": f"{cookie.name}={cookie.value}"}
        for method, path in (("GET", "/v1/flows"), ("POST", "/v1/flows"), ("DELETE", "/v1/flows/mine"), ("GET", "/metrics")):
            assert page.request(method, path, headers=headers).status_code == 401
        assert page.delete("/page/session").status_code == 204
        assert page.get("/page/events").status_code == 401
    wrong = httpx.post(f"{served.url}/page/session", json={"token": "tt_0_0"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "TT415")
    text = owner._http.headers["Authorization"].partition(" ")[2]
    elsewhere = httpx.post(f"{served.url}/page/session", json={"token": text}, headers={"Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status_code == 401


def test_the_page_loads_nothing_from_elsewhere(served: Served) -> None:
    whole = httpx.get(f"{served.url}/")
    assert whole.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    places = re.findall(r'(?:src|href)="([^"]*)"', whole.text)
    assert places == ["page/page.css", "page/page.js"]
    for place in places:
        answer = httpx.get(f"{served.url}/{place}")
        assert answer.status_code == 200
        assert "http" not in answer.text
    assert not re.search(r"<script>|<style|\bstyle=|\son\w+=", whole.text)


# -------------------------------------------------------------------------------------------------------- tokens


def test_a_token_is_needed(served: Served, owner: WorkspaceClient) -> None:
    for token in ("x", "tt_0_0", owner._http.headers["Authorization"][7:] + "x"):
        with WorkspaceClient(served.url, token) as nobody:
            found = refused(nobody.flows)
            assert (found.status, found.code) == (401, "TT415")


def test_tokens_expire_and_are_revoked(tmp_path: Path, served: Served) -> None:
    accounts = Accounts(tmp_path / "private" / "service.db")
    text, made = accounts.make_token("ann", "owner", 1)
    assert accounts.token_of(text) == made
    assert len(text.split("_", 2)[2]) == 43  # 256 bits
    stored = b"".join(one.read_bytes() for one in (tmp_path / "private").iterdir() if one.is_file())
    assert text.split("_", 2)[2].encode() not in stored
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700
    soon, _ = accounts.make_token("ann", "owner", 1e-9)
    assert accounts.token_of(soon) is None
    assert accounts.revoke(made.id)
    assert accounts.token_of(text) is None
    accounts.close()
    with served.of("brief") as client:
        (own,) = client.tokens()
        client.revoke(own["id"])
        assert refused(client.flows).status == 401


def test_roles(served: Served, owner: WorkspaceClient) -> None:
    owner.submit("spent", totals())
    name = owner.flow("spent").owner
    with served.of(name, "reader") as reader, served.administrator() as administrator:
        assert reader.flow("spent").owner == name
        for call in (
            lambda: reader.submit("x", totals("x")),
            lambda: reader.remove("spent"),
            lambda: reader.replace("spent", totals("x")),
            lambda: reader.dry_run("x", totals("x")),
            lambda: reader.make_token("x"),
            lambda: owner.make_token("x"),
            lambda: owner.audit(),
            lambda: owner.revoke(administrator.tokens()[0]["id"]),
            lambda: administrator.submit("x", totals("x")),
        ):
            found = refused(call)
            assert (found.status, found.code) == (403, "TT415")
        assert administrator.flow("spent", name).name == "spent"
        assert "secret" not in json.dumps(administrator.tokens())
        assert administrator.audit()[0].keys() == {"at", "token", "owner", "action", "what", "outcome"}


# --------------------------------------------------------------------------------------------- others are hidden


def test_flows_of_others_are_as_if_they_were_not_there(owner: WorkspaceClient, other: WorkspaceClient) -> None:
    owner.submit("hidden", totals())
    rows(owner, "hidden")
    assert other.flows() == []
    own = owner.flow("hidden").owner
    for call in (
        lambda name: other.flow(name),
        lambda name: other.flow(name, own),
        lambda name: other.outputs(name),
        lambda name: other.outputs(name, own),
        lambda name: other.read(name, "out", "x", own),
        lambda name: other.remove(name),
        lambda name: other.replace(name, totals("x")),
    ):
        there, nowhere = refused(lambda: call("hidden")), refused(lambda: call("nobody"))  # noqa: B023
        assert (there.status, str(there).replace("hidden", "")) == (404, str(nowhere).replace("nobody", ""))
    assert other.submit("hidden", totals()).owner == "other"


def test_a_dry_run_tells_nothing_of_others(served: Served, owner: WorkspaceClient, other: WorkspaceClient) -> None:
    before = other.dry_run("mine", totals())
    owner.submit("hidden", totals())
    assert other.dry_run("mine", totals()) == before
    with served.of("open") as open_owner:
        open_owner.submit("seen", totals())
        assert {flows for _, flows in other.dry_run("mine", totals()).shared} == {("open.seen",)}
        open_owner.remove("seen")
    assert other.dry_run("mine", totals()) == before


def test_errors_of_others_are_hidden(served: Served, owner: WorkspaceClient) -> None:
    owner.submit("spent", totals("same"))
    found = refused(lambda: owner.submit("again", totals("../other/same")))
    assert found.code == "TT417"
    for text in (str(refused(lambda: owner.submit("spent", totals()))), str(found)):
        assert str(served.folder) not in text


def test_an_input_of_others_is_not_there(owner: WorkspaceClient) -> None:
    wrong = totals()
    wrong["tasks"][0] = {**CLICKS, "config": {"input": "secret"}}
    assert [one["code"] for one in refused(lambda: owner.submit("spent", wrong)).problems] == ["TT411"]


# ------------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    "place", ["../x", "/etc", "a/../../x", "a//b", "", "file:///x", "kafka://h:1/t", "_late", "a\nb", "./a", "a\\b"]
)
def test_outputs_lie_below_the_folder_of_the_owner(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError) as raised:
        place_below(tmp_path, place)
    assert raised.value.code == "TT417"


def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    assert place_below(tmp_path / "root", "a/b") == (tmp_path / "root" / "a" / "b").resolve()
    for place in ("link", "link/x"):
        with pytest.raises(UsageError):
            place_below(tmp_path / "root", place)


def test_only_files_of_an_output_are_read(served: Served, owner: WorkspaceClient) -> None:
    owner.submit("spent", totals())
    rows(owner, "spent")
    (output,) = owner.outputs("spent")
    folder = served.folder / "outputs" / owner.flow("spent").owner / "totals"
    (folder / "link").symlink_to("/etc/passwd")
    assert "link" not in owner.outputs("spent")[0].files
    for file in ("link", "..%2f..%2f..%2fprivate%2fservice.db", "_checkpoint", ".hidden"):
        assert refused(lambda: owner.read("spent", "out", file)).status == 404  # noqa: B023
    assert all(owner.read("spent", "out", one) for one in output.files)


# -------------------------------------------------------------------------------------------------------- limits


def test_limits(served: Served, owner: WorkspaceClient) -> None:
    def post(body: bytes) -> httpx.Response:
        return owner._http.post("/v1/flows", content=body, headers={"Content-Type": "application/json"})

    for body in (b" " * 20_001, b'{"name": ' + b"[" * 19_000):
        answer = post(body)
        assert (answer.status_code, answer.json()["code"]) == (413, "TT416")
    many = [CLICKS, *[{"id": f"s{number}", "type": "sink", "config": {"output": f"s{number}"}} for number in range(20)]]
    wide = {"tasks": many, "streams": [["clicks", f"s{number}"] for number in range(20)]}
    assert [one["code"] for one in refused(lambda: owner.submit("wide", wide)).problems] == ["TT416"]
    for number in range(4):
        owner.submit(f"f{number}", totals(f"f{number}"))
    assert refused(lambda: owner.submit("more", totals("more"))).code == "TT416"


def test_depth_needs_no_stack() -> None:
    assert depth_of(b'{"a": [1, "[[[\\"", {"b": []}]}') == 4
    assert depth_of(b"[" * 100_000) == 100_000


NO_FLOWS = [b'{"name": "x"}', b'{"name": "../x", "flow": {"tasks": [{}]}}', b'{"name": "x", "flow": 3}']
NO_BODIES = [b"", b"{", b"[]", b"{}", b"\xff", *NO_FLOWS]


@pytest.mark.parametrize("body", NO_BODIES)
def test_bodies_that_are_none(owner: WorkspaceClient, body: bytes) -> None:
    answer = owner._http.post("/v1/flows", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "TT410")
    assert answer.json()["problems"]


def test_only_json_is_taken_where_code_of_owners_cannot_be_confined(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    there: Any = SimpleNamespace(registry=read_registry(served.folder / "registry.toml"))
    carl = Token(id="1", owner="carl", role="owner", created=0, expires=0, revoked=None)
    own = {"flow": None, "target": "flows_of_carl:own"}
    for is_available in (True, False):
        monkeypatch.setattr("tracetypes.compiler.workspace.service.service.AVAILABLE", is_available)
        assert Service._worker_for(there, carl, {"flow": totals()}) == ""
        if is_available:
            assert Service._worker_for(there, carl, own) == "carl"
        else:
            with pytest.raises(Refused, match="cannot confine"):
                Service._worker_for(there, carl, own)


@pytest.mark.skipif(not AVAILABLE, reason="the kernel has no Landlock")
def test_spark_cannot_be_confined(tmp_path: Path) -> None:
    """Its Java looks into /proc, where it would find the environment of the service, too."""
    with pytest.raises(UsageError, match="TT402 Spark does not run in the confined worker processes"):
        serve(tmp_path, Address(port=0), backend="spark")
    assert not (tmp_path / "private").exists()


def test_other_addresses_need_tls(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.0.1", "example.org", "::"):
        with pytest.raises(UsageError) as raised:
            Address(host=host).need_safe()
        assert raised.value.code == "TT421"
        Address(host=host, is_plain=True).need_safe()
        Address(host=host, certificate=tmp_path, private_key=tmp_path).need_safe()
    for host in ("127.0.0.1", "localhost", "::1"):
        Address(host=host).need_safe()


# ------------------------------------------------------------------------------------------------------ processes


@pytest.mark.skipif(not AVAILABLE, reason="the kernel has no Landlock")
@pytest.mark.parametrize(
    ("what", "path"),
    [
        ("read", "private/service.db"),
        ("read", "private/administrator.token"),
        ("list", "/root"),
        ("environ", ""),
        ("kill", ""),
    ],
)
def test_operators_that_are_allowed_reach_no_files_or_processes_of_the_service(
    served: Served, owner: WorkspaceClient, what: str, path: str
) -> None:
    owner.submit("tries", tries(what, str(served.folder / path)))
    assert set(rows(owner, "tries")) == {"PermissionError"}


def test_a_worker_has_no_secrets_in_its_environment(owner: WorkspaceClient) -> None:
    owner.submit("tries", tries("environment"))
    assert "TOKEN" not in rows(owner, "tries")[0]


def test_an_operator_that_wants_too_much_memory_fails_alone(owner: WorkspaceClient, other: WorkspaceClient) -> None:
    other.submit("spent", totals())
    owner.submit("tries", tries("memory"), backfill=True)
    assert set(rows(owner, "tries")) == {"MemoryError"}
    assert rows(other, "spent") == [10, 5]


@pytest.mark.nightly  # tests/workspace/test_long_calls.py has the rule
def test_an_operator_that_loops_for_ever_fails_alone(owner: WorkspaceClient, other: WorkspaceClient) -> None:
    other.submit("spent", totals())
    with suppress(RequestRefused):  # if the first call is within the submit
        owner.submit("tries", tries("loop"), backfill=True)
        assert "took longer" in str(until(lambda: owner.flow("tries").error))
    assert rows(other, "spent") == [10, 5]


def test_an_operator_that_ends_its_process_is_left_out(served: Served, owner: WorkspaceClient, other: WorkspaceClient) -> None:
    other.submit("spent", totals())
    rows(other, "spent")
    with suppress(RequestRefused):
        owner.submit("tries", tries("exit"), backfill=True)
    # It is refused if the process ends before the answer; otherwise it stays in the list with the reason.
    until(lambda: all(one.state == "stopped" for one in owner.flows()), 60)
    assert all(str(one.error).startswith("TT419") for one in owner.flows())
    until(owner.is_ready)
    assert until(lambda: other.flow("spent").state == "running")
    more = [{"user": "u", "ts": ts, "cents": 1} for ts in (200, 300)]
    (served.folder / "clicks" / "2.jsonl").write_text("".join(json.dumps(one) + "\n" for one in more))
    assert until(lambda: [one["value"] for one in other.rows("spent", "out")][:3] == [10, 5, 5])


@pytest.mark.nightly  # it takes a core for twenty seconds
@pytest.mark.parametrize("what", ["freeze", "catch"])
def test_an_operator_in_a_loop_that_nothing_stops_is_left_out(
    what: str, stopping: Served, owner_of: Callable[[str], WorkspaceClient]
) -> None:
    """In C, with Python's lock; and in Python, with all exceptions caught. The worker process ends, and only the flows
    that need this operator are left out."""
    other, hostile, second = owner_of("other"), owner_of(f"hostile_{what}"), owner_of(f"second_{what}")
    if not other.flows():
        other.submit("spent", totals())
    assert rows(other, "spent")[:2] == [10, 5]
    hostile.submit("tries", tries(what))
    with suppress(RequestRefused):  # the worker may be gone already
        second.submit("tries", tries(what))
    number = len(list((stopping.folder / "clicks").iterdir())) + 1
    more = [{"user": "u", "ts": 100 * number + ts, "cents": number} for ts in (0, 60)]
    (stopping.folder / "clicks" / f"{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in more))
    until(lambda: [one.state for one in hostile.flows()] == ["stopped"], 90)
    assert "TT419 one call of its operators does not end" in str(hostile.flow("tries").error)
    until(lambda: {one.state for one in second.flows()} <= {"stopped"}, 60)
    assert until(lambda: other.flow("spent").state == "running", 60)
    until(lambda: number in [one["value"] for one in other.rows("spent", "out")])


@pytest.mark.nightly  # a loop without an end takes a core for twenty seconds
@pytest.mark.parametrize("what", ["freeze", "exit"])
def test_a_drain_that_ends_its_process_is_left_out(
    what: str, stopping: Served, owner_of: Callable[[str], WorkspaceClient]
) -> None:
    """It is drained in a copy, whose segments have the names of those that others need."""
    other, hostile = owner_of(f"shares_{what}"), owner_of(f"drains_{what}")
    window = totals("spent", size=86_400)  # it closes at a drain only
    ends = {"id": "ends", "type": "ends", "config": {"what": what}}
    other.submit("spent", window)
    hostile.submit("ends", chain(*window["tasks"][:-1], ends, window["tasks"][-1]))
    assert hostile.wait_until_started("ends").shared == 3
    with suppress(RequestRefused):
        hostile.remove("ends", drain=True, seconds=5)
    until(lambda: hostile.flow("ends").state == "stopped", 180)
    assert "TT419 the worker process ended while it was drained" in str(hostile.flow("ends").error)
    assert until(lambda: other.flow("spent").state == "running", 60)
    other.remove("spent", drain=True)


@pytest.mark.skipif(not AVAILABLE, reason="the kernel has no Landlock")
def test_code_of_an_owner_runs_in_a_process_of_his_own(served: Served) -> None:
    with served.of("carl") as carl, served.of("other") as other, served.administrator() as administrator:
        arguments: dict[str, Any] = {"inputs": {"clicks": "clicks"}, "outputs": {"out": "own"}}
        assert refused(lambda: other.submit("own", "flows_of_carl:own", **arguments)).code == "TT422"
        assert refused(lambda: carl.submit("own", "os:system", **arguments)).code == "TT422"
        assert refused(lambda: carl.submit("own", "flows_of_carl:no_flow", **arguments)).code == "TT403"
        assert carl.submit("own", "flows_of_carl:own", **arguments).kind == "python"
        found = [text.partition(" ")[2] for text in sorted(set(rows(carl, "own")))]
        assert len(found) == 10
        assert found[:3] == ["PermissionError"] * 3
        assert found[3].startswith("b'{")  # an input that he may read
        assert found[4:9] == ["PermissionError"] * 5
        assert "TOKEN" not in found[9]
        assert len(re.findall("tracetypes_worker_ready", administrator.metrics())) == 4
        carl.remove("own")


def test_the_process_that_speaks_http_runs_no_operator(served: Served) -> None:
    """It has imported neither the operators nor what runs them."""
    maps = Path(f"/proc/{served.process.pid}/maps").read_text()
    assert "hostile" not in maps
    assert "numpy" not in maps


# --------------------------------------------------------------------------------------------------------- kills


def test_flows_go_on_after_a_kill_of_the_service(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "hostile.py").write_text(OPERATORS)
    (tmp_path / "registry.toml").write_text(REGISTRY)
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "1.jsonl").write_text('{"user": "u", "ts": 10, "cents": 5}\n{"user": "u", "ts": 70, "cents": 5}\n')
    served = start(tmp_path)
    request.addfinalizer(served.process.kill)
    with served.of("ann") as ann:
        ann.submit("spent", totals())
        token = ann._http.headers["Authorization"][7:]
    served.process.kill()
    served.process.communicate()
    with sqlite3.connect(tmp_path / "private" / "service.db") as database:  # as if it had been killed within the submit
        database.execute("UPDATE flows SET state = 'pending', places = '{}'")
        columns = "worker, request, digest, places, submitted, 'pending', NULL"
        database.execute(f"INSERT INTO flows SELECT owner, 'never', {columns} FROM flows")
    served = start(tmp_path)
    request.addfinalizer(served.process.kill)
    with WorkspaceClient(served.url, token) as ann:
        until(ann.is_ready)
        until(lambda: [(one.name, one.state) for one in ann.flows()] == [("spent", "running")])
        assert rows(ann, "spent") == [5]
        (tmp_path / "clicks" / "2.jsonl").write_text('{"user": "u", "ts": 130, "cents": 7}\n')
        assert until(lambda: [one["value"] for one in ann.rows("spent", "out")] == [5, 5])
    said = served.stop()
    assert "stopping" in said
    assert served.process.returncode == 0
    assert not os.path.exists(f"/proc/{served.process.pid}")

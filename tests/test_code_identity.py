"""Functions as syntax trees: what counts, what does not, and what cannot be identified."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from tests.source_modules import modules
from tracetypes.compiler.analysis.identity.description import Unidentified
from tracetypes.compiler.analysis.identity.reach import Reach
from tracetypes.compiler.analysis.secret import Key


def identity(text: str, name: str = "f", key: Key | None = None, module: str = "coded") -> str:
    """The hash of what a module has under a name."""
    with modules(**{module: textwrap.dedent(text)}) as made:
        return Reach(None if key is None else key.hide).digest(vars(made[module])[name])


def reason(text: str, name: str = "f") -> str:
    """Why what a module has under a name cannot be identified."""
    with pytest.raises(Unidentified) as raised:
        identity(text, name)
    return str(raised.value)


def cases(kind: str) -> dict[str, list[str]]:
    """The programs of a kind in ``identity_cases.txt``, by name; of one that cannot be identified the reason too."""
    found: dict[str, list[str]] = {}
    for section in (Path(__file__).parent / "identity_cases.txt").read_text().split("=== ")[1:]:
        title, _, text = section.partition("\n")
        of, _, name = title.partition(": ")
        if of == kind:
            found[name] = [part.strip("\n") for part in re.split(r"^--- (?:or\n|because )", text, flags=re.MULTILINE)]
    return found


EQUAL, DIFFERENT, UNIQUE, READ = map(cases, ("equal", "different", "unique", "read"))


@pytest.mark.parametrize("what", EQUAL)
def test_what_does_not_count(what: str) -> None:
    one, other = EQUAL[what]
    assert identity(one) == identity(other, module="coded_otherwise")


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_counts(what: str) -> None:
    one, other = DIFFERENT[what]
    assert identity(one) == identity(one)
    assert identity(one) != identity(other)


@pytest.mark.parametrize("what", UNIQUE)
def test_what_cannot_be_identified(what: str) -> None:
    text, why = UNIQUE[what]
    assert why in reason(text)


@pytest.mark.parametrize("what", READ)
def test_what_is_only_read_is_a_value(what: str) -> None:
    assert identity(READ[what][0]) == identity(READ[what][0])


def test_a_source_that_has_changed_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "changing_source.py"
    path.write_text("def f(n):\n    return n + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("changing_source")
    module = sys.modules.pop("changing_source")
    path.write_text("def f(n):\n    return n + 2\n")
    with pytest.raises(Unidentified, match="has a source that has changed since it was imported"):
        Reach(None).digest(module.f)


def test_code_without_a_source_is_not_identified() -> None:
    space: dict[str, Any] = {}
    exec("def f(n):\n    return n", space)
    with pytest.raises(Unidentified, match="the function f has a source that is not there"):
        Reach(None).digest(space["f"])


def test_lambdas_of_one_line_need_places(tmp_path: Path) -> None:
    (tmp_path / "lambdas_of_one_line.py").write_text(
        textwrap.dedent(
            """
            from tracetypes.compiler.analysis.identity.description import Unidentified
            from tracetypes.compiler.analysis.identity.reach import Reach

            f, g = lambda n: n + 1, lambda n: n + 2
            try:
                print(Reach(None).digest(f) != Reach(None).digest(g))
            except Unidentified as error:
                print(error)
            """
        )
    )
    root = str(Path(__file__).parents[1])
    for options, said in (((), "True"), (("-X", "no_debug_ranges"), "the function <lambda> has no known place in its source")):
        command = [sys.executable, *options, str(tmp_path / "lambdas_of_one_line.py")]
        run = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == said


def test_a_constant_lambda_beside_another_one_is_found() -> None:
    text = "f, g = lambda n: {}, lambda n: n"
    assert identity(text.format(1)) == identity(text.format(1)) != identity(text.format(2))
    assert identity(text.format(1), "g") == identity(text.format(2), "g")


def test_functions_of_packages_count_by_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetypes.compiler.analysis.identity import libraries

    text = "import hypothesis\ndef f(n):\n    return hypothesis.note(n)"
    before = identity(text)
    assert identity(text) == before
    libraries.library.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    try:
        assert identity(text) != before
    finally:
        libraries.library.cache_clear()


def test_functions_of_python_count_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetypes.compiler.analysis.identity import libraries

    text, own = "import math\ndef f(n):\n    return math.sqrt(n)", "def f(n):\n    return len(n)"
    before, before_own = identity(text), identity(own)
    libraries.library.cache_clear()
    monkeypatch.setattr(libraries, "_STANDARD", "python 3.99")
    try:
        assert identity(text) != before
        assert identity(own) == before_own
    finally:
        libraries.library.cache_clear()


def test_globals_of_another_module_count_and_must_not_change() -> None:
    own = "import other_module as m\ndef f(n):\n    return m.N + n"
    texts = []
    for other in ("N = 1", "N = 2"):
        with modules(other_module=other):
            texts.append(identity(own))
    assert texts[0] != texts[1]
    with modules(other_module="N = 1\ndef bump():\n    global N\n    N += 1"):
        assert reason(own) == "the function f reads the global m.N, which bump() changes"


def test_two_lambdas_of_a_library_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetypes.compiler.analysis.identity import functions

    monkeypatch.setattr(functions, "library", lambda module, file: "made 1.0")
    text = "def make(k):\n    return lambda n: n + k\nf = lambda n: 1\ng = lambda n: 2\nh, i, j = make(1), make(1), make(2)"
    f, g, h, i, j = (identity(text, name) for name in "fghij")
    assert f == identity(text, "f") != g
    assert h == i != j


def test_objects_that_cannot_be_looked_at_elsewhere_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of a framework raises when anything is asked of it, its class too. Modules are searched for lists that f reads."""
    text = "class P:\n    def __getattribute__(self, name):\n        raise LookupError(name)\np = P()\ndef g(n):\n    return n"
    plain = identity("T = [1, 2]\ndef f(n):\n    return T[0]")
    with modules(proxied=text) as made:
        monkeypatch.setitem(sys.modules, "no_module", made["proxied"].p)
        assert identity("T = [1, 2]\ndef f(n):\n    return T[0]") == plain


def test_cells_of_a_notebook_are_one_module() -> None:
    with modules(first_cell="N = 0\ndef f(n):\n    return N", second_cell="def bump():\n    global N\n    N += 1") as made:
        first, second = vars(made["first_cell"]), vars(made["second_cell"])
        first["bump"] = types.FunctionType(second["bump"].__code__, first)
        with pytest.raises(Unidentified, match=re.escape("the function f reads the global N, which bump() changes")):
            Reach(None).digest(first["f"])


def test_secrets_enter_by_a_keyed_hash() -> None:
    text = "import attrs\n@attrs.frozen\nclass C:\n    k: str = attrs.field(repr=False)\nc = C('{}')\ndef f(n):\n    return c.k"
    one, other = Key(b"a" * 32), Key(b"b" * 32)
    assert identity(text.format("x"), key=one) == identity(text.format("x"), key=one)
    assert identity(text.format("x"), key=one) != identity(text.format("y"), key=one)
    assert identity(text.format("x"), key=one) != identity(text.format("x"), key=other)
    assert "holds a secret" in reason(text.format("x"))


@pytest.mark.parametrize(
    "text",
    [
        "URL = 'postgres://me:{}@host/db'\ndef f(n):\n    return URL",
        "PASSWORD = '{}'\ndef f(n):\n    return PASSWORD",
        "def f(n):\n    return dict(password='{}')",
        "T = {{'password': '{}'}}\ndef f(n):\n    return T['password']",
    ],
)
def test_passwords_are_secrets(text: str) -> None:
    one, other = Key(b"a" * 32), Key(b"b" * 32)
    assert identity(text.format("swordfish"), key=one) != identity(text.format("mackerel"), key=one)
    assert identity(text.format("swordfish"), key=one) != identity(text.format("swordfish"), key=other)
    assert "holds a secret" in reason(text.format("swordfish"))

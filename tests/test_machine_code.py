"""Generated Python as machine code: what it computes, its cache on disk, and the thread that compiles it."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns.machine import compilation as compilations
from tracetypes.compiler.columns.machine import objects
from tracetypes.compiler.columns.machine.cache import CodeCache, directory
from tracetypes.compiler.columns.machine.code import MachineCode, MachineFunction, ObjectCode, available
from tracetypes.compiler.columns.machine.compilation import Compilation, compilation, compiled

SUM = MachineCode(
    "def kernel(n, values, sums):\n    total = int64(0)\n    for at in range(n):\n        total += values[at]\n"
    "        sums[at] = total\n    return total\n",
    ("int64", "const int64*", "int64*"),
)
CODE = ObjectCode("symbol", ("pow",), b"\0code\n" * 100)


def number(n: int) -> MachineCode:
    return MachineCode(f"def kernel():\n    return int64({n})\n", ())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACETYPES_CACHE", str(tmp_path / "machine"))
    return tmp_path / "machine"


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[MachineCode]:
    """What numba compiled."""
    made = list[MachineCode]()
    compile_one = compilations._object_code

    def counted(code: MachineCode) -> ObjectCode:
        made.append(code)
        return compile_one(code)

    monkeypatch.setattr(compilations, "_object_code", counted)
    return made


# -------------------------------------------------------------------------------------------------------- code


def test_a_function_reads_and_writes_columns(folder: Path) -> None:
    function = compiled(SUM)
    values, sums = np.arange(1000), np.zeros(1000, np.int64)
    assert function(1000, values, sums) == values.sum()
    assert (sums == np.cumsum(values)).all()


@pytest.mark.parametrize(
    "columns",
    [
        (np.arange(4.0), np.zeros(4, np.int64)),
        (np.arange(8)[::2], np.zeros(4, np.int64)),
        (np.arange(4), np.frombuffer(bytes(32), np.int64)),
        (np.arange(4, dtype=np.int32), np.zeros(4, np.int64)),
    ],
)
def test_a_column_of_another_form_is_refused(folder: Path, columns: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError):
        compiled(SUM)(4, *columns)


def test_a_type_of_an_argument_is_checked() -> None:
    with pytest.raises(ValueError, match="int128"):
        MachineCode("def kernel(a):\n    return 0\n", ("int128",))


OVER = MachineCode(
    "def kernel(a, b, out):\n"
    "    out[0], first = add_over(a, b)\n    out[1], second = sub_over(a, b)\n    out[2], third = mul_over(a, b)\n"
    "    return int64(first) + 2 * int64(second) + 4 * int64(third)\n",
    ("int64", "int64", "int64*"),
)
LONG = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-4, 4), st.sampled_from([2**63 - 1, -(2**63), 2**32, 3037000500])
)


@given(a=LONG, b=LONG)
def test_an_overflow_is_seen(a: int, b: int) -> None:
    out = np.zeros(3, np.int64)
    flags = _overflows()(a, b, out)
    for at, exact in enumerate((a + b, a - b, a * b)):
        fits = -(2**63) <= exact < 2**63
        assert bool(flags >> at & 1) is not fits
        assert not fits or out[at] == exact


@functools.cache
def _overflows() -> MachineFunction:
    return compiled(OVER, CodeCache(None))


FLOATS = MachineCode(
    "def kernel(n, a, b, c, sums, powers):\n    for at in range(n):\n        sums[at] = a[at] * b[at] + c[at]\n"
    "        powers[at] = power(a[at], b[at])\n    return 0\n",
    ("int64", "const float64*", "const float64*", "const float64*", "float64*", "float64*"),
)


def test_floats_have_the_bits_of_python(folder: Path) -> None:
    drawn = np.random.default_rng(1)
    a, b, c = (drawn.random(5_000) * scale for scale in (40.0, 9.0, 300.0))
    b[:1000], b[1000:2000] = 2.0, 0.5
    a[2000:3000] = 2.0
    c[:2500] = -(a * b)[:2500] * (1 + 2**-52)  # here a fused sum has other bits
    sums, powers = np.zeros(5_000), np.zeros(5_000)
    compiled(FLOATS)(5_000, a, b, c, sums, powers)
    assert sums.tolist() == [x * y + z for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert powers.tolist() == [x**y for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_a_call_does_not_hold_the_gil(folder: Path) -> None:
    """Python goes on while it lasts."""
    source = "def kernel(n):\n    x = uint64(3)\n    for at in range(n):\n        x = x * x + uint64(at)\n    return int64(x)\n"
    function = compiled(MachineCode(source, ("int64",)))
    thread = threading.Thread(target=function, args=(200_000_000,))
    begin = last = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    assert longest < (time.perf_counter() - begin) / 2


# ------------------------------------------------------------------------------------------------------- cache


def test_code_is_compiled_once(folder: Path, count: list[MachineCode]) -> None:
    assert [compiled(number(7))() for _ in range(3)] == [7, 7, 7]
    assert len(count) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert compiled(number(8))() == 8
    assert len(count) == 2


def test_another_processor_has_code_of_its_own(
    folder: Path, count: list[MachineCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other", "one"):
        monkeypatch.setattr(objects, "processor", lambda name=name: (name, "+avx"))
        assert compiled(number(9))() == 9
    assert len(count) == 2


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 200, None])
def test_a_damaged_file_is_compiled_again(folder: Path, count: list[MachineCode], damage: bytes | None) -> None:
    assert compiled(number(10))() == 10
    (file,) = folder.glob("*.code")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    assert compiled(number(10))() == 10
    assert compiled(number(10))() == 10
    assert len(count) == 2


def test_code_that_cannot_be_loaded_is_compiled_again(folder: Path, count: list[MachineCode], tmp_path: Path) -> None:
    assert compiled(number(11))() == 11
    (file,) = folder.glob("*.code")
    CodeCache(folder).put(file.name, ObjectCode("symbol", ("a_function_that_nobody_has",), b""))
    assert compiled(number(11))() == 11
    assert len(count) == 2


def test_the_files_not_used_for_longest_go(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path / "machine", size=3_000)
    for at in range(4):
        cache.put(f"{at}.code", CODE)
        os.utime(tmp_path / "machine" / f"{at}.code", (at, at))
    assert cache.get("0.code") == CODE  # used, therefore young
    cache.put("4.code", CODE)
    cache.put("5.code", CODE)
    left = {file.name for file in (tmp_path / "machine").iterdir()}
    assert sum((tmp_path / "machine" / name).stat().st_size for name in left) <= 3_000
    assert left == {"0.code", "3.code", "4.code", "5.code"}


def test_a_directory_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path / "machine")
    cache.put("a.code", CODE)
    assert cache.get("a.code") == CODE
    (tmp_path / "machine").chmod(0o770)
    assert cache.get("a.code") is None
    (tmp_path / "machine").chmod(0o700)
    (tmp_path / "machine" / "a.code").chmod(0o666)
    assert cache.get("a.code") is None


def test_a_directory_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CodeCache(tmp_path / "machine")
    cache.put("a.code", CODE)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert cache.get("a.code") is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    real = CodeCache(tmp_path / "real")
    real.put("a.code", CODE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert CodeCache(tmp_path / "link").get("a.code") is None
    (tmp_path / "real" / "b.code").symlink_to(tmp_path / "real" / "a.code")
    assert real.get("b.code") is None


def test_without_a_directory_code_is_compiled_each_time(tmp_path: Path, count: list[MachineCode]) -> None:
    (tmp_path / "file").touch()
    for path in (None, tmp_path / "file" / "below", Path("/proc/nothing/here")):
        assert compiled(number(12), CodeCache(path))() == 12
    assert len(count) == 3


def test_where_the_directory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETYPES_CACHE", "/a/b")
    assert directory() == Path("/a/b")
    monkeypatch.setenv("TRACETYPES_CACHE", "")
    assert directory() is None
    monkeypatch.delenv("TRACETYPES_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert directory() == Path("/c/tracetypes/machine")
    for base in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        monkeypatch.setenv("HOME", "/h")
        assert directory() == Path("/h/.cache/tracetypes/machine")


def test_processes_write_at_once(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        from tracetypes.compiler.columns.machine.cache import CodeCache
        from tracetypes.compiler.columns.machine.code import ObjectCode
        cache, own = CodeCache(Path(sys.argv[1]), 40_000), sys.argv[2]
        sys.stdin.read(1)
        for at in range(300):
            cache.put(f"{at % 7}.code", ObjectCode(own, (), own.encode() * 10_000))
            found = cache.get(f"{at % 5}.code")
            assert found is None or found.code == found.symbol.encode() * 10_000
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "machine")]
    running = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "ab"]
    for one in running:
        assert one.stdin is not None
        one.stdin.write(b"x")
        one.stdin.close()
    assert [one.wait() for one in running] == [0, 0]
    assert not list((tmp_path / "machine").glob("*.new"))


# -------------------------------------------------------------------------------------------------- compilation


def test_code_is_compiled_in_the_background(folder: Path) -> None:
    one = compilation(number(13))
    assert one is compilation(number(13))
    assert one.function is None
    function = one.wait()
    assert function is not None
    assert function() == 13
    assert one.problem is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def kernel():\n    return unknown\n", "NameError|TypingError|Error"),
        ("def kernel(:\n", "SyntaxError"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("def kernel():\n    return len([1.5])\n", "NumbaRuntimeError"),
    ],
)
def test_whatever_goes_wrong_is_only_said(folder: Path, source: str, said: str) -> None:
    one = Compilation(MachineCode(source, ()))
    assert one.wait() is None
    assert one.problem is not None
    assert any(part in one.problem for part in said.split("|"))


def test_without_numba_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else found(name))
    assert not available()
    one = Compilation(number(14))
    assert one.wait() is None
    assert one.problem == "numba is not installed"


def _run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_an_import_that_fails_is_only_said() -> None:
    program = """
        import sys
        sys.modules["numba.core"] = None
        from tracetypes.compiler.columns.machine.code import MachineCode
        from tracetypes.compiler.columns.machine.compilation import Compilation
        one = Compilation(MachineCode("def kernel(): return 0", ()))
        assert one.wait() is None
        print(one.problem)
    """
    done = _run(program, TRACETYPES_CACHE="")
    assert done.returncode == 0, done.stderr
    assert "ModuleNotFoundError" in done.stdout
    assert not done.stderr


def test_kept_code_needs_no_numba(folder: Path) -> None:
    """It is loaded by LLVM alone, in a hundredth of the time."""
    program = """
        import sys
        from tracetypes.compiler.columns.machine.code import MachineCode
        from tracetypes.compiler.columns.machine.compilation import compiled
        assert "llvmlite" not in sys.modules
        print(compiled(MachineCode("def kernel():\\n    return int64(15)\\n", ()))(), "numba" in sys.modules)
    """
    assert [_run(program).stdout for _ in range(2)] == ["15 True\n", "15 False\n"]


def test_a_process_ends_while_code_is_compiled() -> None:
    program = """
        import time
        from tracetypes.compiler.columns.machine.code import MachineCode
        from tracetypes.compiler.columns.machine.compilation import Compilation
        one = Compilation(MachineCode("def kernel():\\n    return int64(15)\\n", ()))
        one.start()
        print(one.function)
    """
    done = _run(program, TRACETYPES_CACHE="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")

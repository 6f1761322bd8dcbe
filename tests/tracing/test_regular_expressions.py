"""Regular expressions with a constant pattern: traced, and matched by Arrow only where it matches what Python matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.dictionaries import arrow_inputs
from tests.programs import inputs_of
from tests.strategies import some
from tracetypes.compiler.columns import evaluation, regular_expressions
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.regular_expressions import pattern_of_arrow
from tracetypes.compiler.tracing.expr import run
from tracetypes.compiler.tracing.kinds import STRING
from tracetypes.compiler.tracing.operations.regular_expressions import METHODS
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace

TEXTS: Sequence[str] = (
    *(
        "",
        "a",
        "ab",
        "aab",
        "b a",
        "A",
        "aB1",
        "\n",
        "a\n",
        "a\nb",
        "_-1",
        "\x1c",
        "\x0b ",
        "ä",
        "K\u212a",
        "\u0663",
        "é a",
    ),
    *("a" * 30, "2024-01-02", "x=1;y=2", "\u2003", "\u017fs", "ß", "a\x00", "😀b", "abcabc"),
)

ATOMS = (
    *(
        "a",
        "b",
        "1",
        " ",
        "-",
        ".",
        "ä",
        "K",
        "s",
        r"\.",
        r"\n",
        r"\d",
        r"\w",
        r"\s",
        r"\D",
        r"\W",
        r"\S",
        r"\b",
        r"\B",
        "^",
        "$",
    ),
    *(r"\A", r"\Z", "[ab]", "[^a]", "[a-c1]", r"[\w-]", r"[^\s]", "[ä-ü]", "(?:)", r"[\n-é]"),
)


def patterns() -> SearchStrategy[str]:
    """Patterns of all that RE2 has too, and of some that it has not."""
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=4).map("".join),
            st.tuples(inner, inner).map("|".join).map("(?:{})".format),
            inner.map("({})".format),
            st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"))).map(
                lambda both: f"(?:{both[0]}){both[1]}"
            ),
            inner.map("(?={})".format),
        ),
        max_leaves=6,
    )


FLAGS = st.sampled_from((0, re.I, re.A, re.S, re.M, re.I | re.A, re.X))


def differences(pattern: str, flags: int, texts: Sequence[str]) -> bool | None:
    """Whether Arrow's pattern matches other texts; None if there is none."""
    found = False
    for method in METHODS:
        for some_texts in (texts, [text for text in texts if text.isascii()]):
            ascii_only = all(map(str.isascii, some_texts))
            written = pattern_of_arrow(method, pattern, flags, ascii_only=ascii_only)
            if written is None:
                continue
            found = True
            match = getattr(re.compile(pattern, flags), method)
            made = pc.match_substring_regex(pa.array(some_texts, pa.string()), written).to_pylist()
            if made != [match(text) is not None for text in some_texts]:
                return True
    return False if found else None


def compiles(pattern: str, flags: int) -> bool:
    try:
        re.compile(pattern, flags)
    except re.error:
        return False
    return True


@settings(max_examples=some(400), deadline=None)
@given(patterns(), FLAGS, st.lists(st.text("ab1 -\näKks.", max_size=6), max_size=6))
def test_arrow_matches_what_python_matches(pattern: str, flags: int, more: list[str]) -> None:
    assume(compiles(pattern, flags))
    assert not differences(pattern, flags, [*TEXTS, *more])


@pytest.mark.parametrize(
    "pattern",
    [r"\d+", "^[a-z]+$", "(a|b)c?", r"\w+@\w+\.com", "(?i)error", "a{2,5}", r"[^,]*,(\d)", r"\bview\b", "x.*y"],
)
def test_arrow_has_the_usual_patterns(pattern: str) -> None:
    assert pattern_of_arrow("search", pattern, 0, ascii_only=True) is not None


@pytest.mark.parametrize(
    ("broken", "pattern"),
    [
        (("_SEPARATORS", regular_expressions._CLASSES["SPACE"]), r"\s"),
        (("_CLASSES", {**regular_expressions._CLASSES, "WORD": [(0x30, 0x39)]}), r"\w"),
    ],
)
def test_a_wrong_class_is_caught(broken: tuple[str, Any], pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, *broken)
    pattern_of_arrow.cache_clear()
    assert differences(pattern, 0, TEXTS)
    pattern_of_arrow.cache_clear()


# ----------------------------------------------------------------------------------------------- traced


KEY, WORDS = re.compile(r"(?P<key>\w+)=(\d)?"), re.compile("[a-c]+")

PROGRAMS: Sequence[Callable[[str], Any]] = (
    lambda v: re.match(r"a+b", v) is not None,
    lambda v: bool(re.search("B", v, re.IGNORECASE)),
    lambda v: 1 if WORDS.fullmatch(v) else 2,
    lambda v: m["key"] if (m := KEY.search(v)) else "",
    lambda v: m.group(2) if (m := KEY.search(v)) else "none",
    lambda v: m.span() if (m := re.search("b", v)) is not None else (-1, -1),
    lambda v: (m.start(1), m.end(1)) if (m := KEY.search(v)) else (0, 0),
    lambda v: "".join(str(one) for one in m.groups()) if (m := KEY.search(v)) else "",
    lambda v: re.sub(r"[a-c]", "-", v),
    lambda v: re.sub(r"(\d)", r"<\1>", v, count=1),
    lambda v: len(WORDS.findall(v)),
    lambda v: WORDS.findall(v)[0] if WORDS.findall(v) else "",
    lambda v: "ab" in re.findall("[ab]+", v),
    lambda v: re.split("[,;]", v)[0],
    lambda v: len(re.split(r"\s", v, maxsplit=1)),
)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_mean_what_python_says(number: int) -> None:
    program = PROGRAMS[number]
    tree = trace(program, [Given("v", STRING)], emits=None)
    wanted = [program(text) for text in TEXTS]
    assert [run(tree, inputs_of(v=text))[1] for text in TEXTS] == wanted
    result = evaluation.run(tree, arrow_inputs({"v": (STRING, array(STRING, TEXTS))}), len(TEXTS)).result
    assert result is not None
    assert values_of(result, len(TEXTS)) == wanted


@settings(max_examples=some(60), deadline=None)
@given(patterns(), FLAGS, st.sampled_from(METHODS))
def test_any_pattern_is_traced(pattern: str, flags: int, method: str) -> None:
    assume(compiles(pattern, flags))
    compiled = re.compile(pattern, flags)

    def program(v: str) -> str | None:
        match = getattr(compiled, method)(v)
        return match.group(compiled.groups) if match else "no match"

    tree = trace(program, [Given("v", STRING)], emits=None)
    for text in TEXTS:
        assert run(tree, inputs_of(v=text))[1] == program(text)


@pytest.mark.parametrize(
    "program",
    [
        lambda v: re.match(v, "a") is not None,
        lambda v: WORDS.search(v, 1) is not None,
        lambda v: re.sub("a", lambda match: "b", v),
        lambda v: re.sub("a", v, v),
        lambda v: m.lastindex if (m := KEY.search(v)) else 0,
        lambda v: re.findall("(a)(b)", v)[0],
    ],
)
def test_the_rest_is_refused(program: Callable[[str], Any]) -> None:
    with pytest.raises(Untraceable):
        trace(program, [Given("v", STRING)], emits=None)

"""Regular expressions with a constant pattern: traced, and matched by Arrow only where it matches what Python matches."""

from __future__ import annotations

import inspect
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
from tests.source_modules import modules
from tests.strategies import some
from tracetypes.compiler.columns import evaluation, match_groups, regular_expressions
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.match_groups import group_of_matches
from tracetypes.compiler.columns.regular_expressions import groups_of_arrow, pattern_of_arrow
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


def other_groups(pattern: str, flags: int, texts: Sequence[str]) -> bool | None:
    """Whether Arrow finds other groups; None if it has no pattern for any."""
    found = False
    for method in METHODS:
        for some_texts in (texts, [text for text in texts if text.isascii()]):
            ascii_only = all(map(str.isascii, some_texts))
            written = groups_of_arrow(method, pattern, flags, ascii_only=ascii_only)
            for at in written.groups if written else ():
                found = True
                matches = list(map(getattr(re.compile(pattern, flags), method), some_texts))
                made = group_of_matches(array(STRING, some_texts), method, pattern, flags, at, ascii_only=ascii_only)
                assert made is not None
                values, undefined = made
                missing = [False] * len(matches) if undefined is None else undefined.tolist()
                if missing != [match is None for match in matches]:
                    return True
                if values.to_pylist() != ["" if match is None else match.group(at) for match in matches]:
                    return True
    return False if found else None


@settings(max_examples=some(400), deadline=None)
@given(patterns(), FLAGS, st.lists(st.text("ab1 -\näKks.", max_size=6), max_size=6))
def test_arrow_finds_the_groups_that_python_finds(pattern: str, flags: int, more: list[str]) -> None:
    assume(compiles(pattern, flags))
    assert not other_groups(pattern, flags, [*TEXTS, *more])


@pytest.mark.parametrize(
    "pattern",
    [r"(\w+)=(\d*)", r"((?:[^a]|a.)*?)b", r"^(\S+) (?:x|y)?(.*)$", r"(a+)(a*)", r"(a+?)(a*)", r"(?:a|ab)(c|bcd)", "(a|b)*(b?)"],
)
@pytest.mark.parametrize("flags", [0, re.ASCII])
def test_arrow_has_the_usual_groups(pattern: str, flags: int) -> None:
    assert other_groups(pattern, flags, [*TEXTS, "aaa", "xabcd", "abb", "k=1", "k=\n", "a b\n", "a xb"]) is False


@pytest.mark.parametrize(
    ("line", "broken", "pattern"),
    [
        ('"?" if op == "MIN_REPEAT" and self.same_parts', '"?" if False', "(a+?)(a*)"),
        ("self.has_end = True", "self.has_end = False", "a$"),
        ("self.need(not self.same_parts or inner.getwidth()[0] > 0)", "pass", "((?:a*|b)*)"),
        ("self.gives_names, False", "self.gives_names, True", "(a)|b"),
        ('if self.has_end and self.method != "fullmatch"', "if False", "(a*$)"),
    ],
)
def test_a_wrong_group_is_caught(line: str, broken: str, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(regular_expressions)
    assert source.count(line) == 1
    with modules(twin=source.replace(line, broken)) as made:
        monkeypatch.setattr(match_groups, "groups_of_arrow", made["twin"].groups_of_arrow)
        monkeypatch.setitem(globals(), "groups_of_arrow", made["twin"].groups_of_arrow)
        assert other_groups(pattern, 0, TEXTS)


def test_groups_go_with_their_texts() -> None:
    """What was found for some texts is kept as long as they are, and found once."""
    texts = array(STRING, ["a1", "b2"])
    first = group_of_matches(texts, "match", "([a-z])([0-9])", 0, 1, ascii_only=True)
    second = group_of_matches(texts, "match", "([a-z])([0-9])", 0, 2, ascii_only=True)
    assert [one[0].to_pylist() for one in (first, second) if one] == [["a", "b"], ["1", "2"]]
    assert match_groups._LASTS.last is not None
    del texts
    assert match_groups._LASTS.last is None


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
    lambda v: m.groups() if (m := re.match(r"(.)(.*)", v)) else None,
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

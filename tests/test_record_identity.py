"""Record classes: equal by fields, types, defaults, validators and the methods that code reaches; names do not count."""

from __future__ import annotations

import re

import pytest

from tests.test_code_identity import identity, reason

MAKERS = {
    "attrs": "import attrs\n@attrs.frozen\nclass {name}:\n{fields}\n",
    "dataclass": "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass {name}:\n{fields}\n",
    "NamedTuple": "from typing import NamedTuple\nclass {name}(NamedTuple):\n{fields}\n",
}
FIELDS = "    a: int\n    b: str = 'x'\n"
USE = "def f(n):\n    return {name}(1).m()"
METHOD = "    def m(self):\n        return self.a\n"


def record(maker: str, fields: str = FIELDS, methods: str = METHOD, name: str = "Row", before: str = "", use: str = USE) -> str:
    """A module with a record class and a function that uses it."""
    return before + "\n" + MAKERS[maker].format(name=name, fields=fields + methods) + use.format(name=name)


@pytest.mark.parametrize("maker", MAKERS)
def test_names_of_classes_and_modules_do_not_count(maker: str) -> None:
    assert identity(record(maker)) == identity(record(maker, name="Other"), module="coded_otherwise")


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "fields",
    [
        "    c: int\n    b: str = 'x'\n",
        "    a: float\n    b: str = 'x'\n",
        "    a: int\n    b: str = 'y'\n",
        "    a: int\n    b: str | None = 'x'\n",
        "    a: int\n    b: str = 'x'\n    c: int = 1\n",
        "    b: str\n    a: int = 1\n",
    ],
)
def test_fields_count(maker: str, fields: str) -> None:
    assert identity(record(maker)) != identity(record(maker, fields))


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "method", ["__eq__(self, other)", "__post_init__(self)", "__attrs_post_init__(self)", "__add__(self, other)", "__str__(self)"]
)
def test_methods_that_nothing_names_count(maker: str, method: str) -> None:
    one, other = (METHOD + f"    def {method}:\n        return {value}\n" for value in ("1", "2"))
    assert identity(record(maker, methods=one)) == identity(record(maker, methods=one))
    assert identity(record(maker, methods=one)) != identity(record(maker, methods=other))
    assert identity(record(maker, methods=one)) != identity(record(maker))


@pytest.mark.parametrize("maker", MAKERS)
def test_only_methods_that_are_reached_count(maker: str) -> None:
    one, other = ("    def m(self):\n        return self.p\n    @property\n    def p(self):\n        return " + n for n in "12")
    assert identity(record(maker, methods=one)) != identity(record(maker, methods=other))
    unused = "    def unused(self):\n        return {}\n"
    texts = [record(maker, methods=METHOD + unused.format(n)) for n in (1, 2)]
    assert identity(texts[0]) == identity(texts[1])


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "use",
    [
        "def f(n):\n    return type({name}(1)).__name__",
        "def f(n):\n    return {name}.__qualname__",
        "def f(n):\n    return str({name}(1))",
        "def f(n):\n    return repr({name}(1))",
        "def f(n):\n    return f'{{{name}(1)}}'",
        "def f(n):\n    return f'{{{name}(1)!r:>30}}'",
        "def f(n):\n    return '%s' % {name}(1)",
        "def f(n):\n    return '{{}}'.format({name}(1))",
        "def f(n):\n    return ''.join(map(str, [{name}(1)]))",
        "def f(n):\n    return getattr({name}, '__name__')",
        "import operator\nG = operator.attrgetter('__name__')\ndef f(n):\n    return G({name})",
        "import pprint\ndef f(n):\n    return pprint.pformat({name}(1))",
    ],
)
def test_names_that_code_reads_count(maker: str, use: str) -> None:
    assert identity(record(maker, use=use)) == identity(record(maker, use=use))
    assert identity(record(maker, use=use)) != identity(record(maker, name="Other", use=use))


@pytest.mark.parametrize(
    "use",
    [
        "def f(n):\n    return {name}.__module__",
        "def f(n):\n    return str(type({name}(1)))",
        "def f(n):\n    return str({name})",
        "def f(n):\n    return f'{{{name}}}'",
        "def f(n):\n    return str({name}.__mro__)",
        "def f(n, to={name}):\n    return str(to)",
        "T = ({name},)\ndef f(n):\n    return str(T[0])",
        "T = {{1: {name}}}\ndef f(n):\n    return str(T[1])",
        "import attrs\n@attrs.frozen\nclass C:\n    to: type\nX = C({name})\ndef f(n):\n    return str(X.to)",
    ],
)
def test_names_of_modules_that_code_reads_count(use: str) -> None:
    assert identity(record("attrs", use=use)) != identity(record("attrs", use=use), module="coded_otherwise")


@pytest.mark.parametrize(
    "use",
    [
        "def f(n):\n    return isinstance(n, {name})",
        "def f(n):\n    return type(n) is {name}",
        "def f(n):\n    match n:\n        case {name}(a=1):\n            return 1",
        "def f(n):\n    return {name}(n) == n",
    ],
)
def test_a_class_may_be_asked_for(use: str) -> None:
    assert identity(record("attrs", use=use)) == identity(record("attrs", name="Other", use=use), module="coded_otherwise")


def test_two_classes_of_equal_fields_are_two() -> None:
    def pair(tested: str, union: str) -> str:
        first, second = record("attrs", name="Cat", use=""), record("attrs", name="Dog", use="")
        return f"{first}{second}\ndef f(n, kind={union}):\n    return isinstance(n, {tested})"

    assert identity(pair("Cat", "(Cat, Dog)")) == identity(pair("Cat", "(Cat, Dog)"))
    assert identity(pair("Cat", "(Cat, Dog)")) != identity(pair("Dog", "(Cat, Dog)"))
    assert identity(pair("Cat", "(Cat, Dog)")) == identity(pair("Dog", "(Dog, Cat)"))


VALIDATORS = [
    "ge(1)",
    "ge(2)",
    "instance_of(int)",
    "instance_of(float)",
    "in_([1, 2])",
    "optional(lt(3))",
    "and_(ge(1), lt(3))",
    "max_len(3)",
    "matches_re('a')",
    "matches_re('b')",
    "deep_iterable(ge(1))",
]


def test_validators_of_attrs_count() -> None:
    def validated(by: str) -> str:
        fields = f"    a: int = attrs.field(validator={by})\n"
        return identity(record("attrs", fields, before="from attrs.validators import *", use="def f(n):\n    return {name}(n)"))

    texts = {by: validated(by) for by in VALIDATORS}
    assert len(set(texts.values())) == len(texts)
    assert texts == {by: validated(by) for by in VALIDATORS}


@pytest.mark.parametrize("by", ["optional({})", "default_if_none({})", "pipe({}, abs)"])
def test_converters_of_attrs_count(by: str) -> None:
    def converted(by: str) -> str:
        fields = f"    a: int = attrs.field(converter=attrs.converters.{by})\n"
        return identity(record("attrs", fields, use="def f(n):\n    return {name}(n)"))

    assert converted(by.format("int")) == converted(by.format("int"))
    assert converted(by.format("int")) != converted(by.format("str"))


ATTRS = {
    "validators": ("v = 1\n", "attrs.field(validator=check)", "def check(i, a, n):\n    assert n > {}\n"),
    "converters": ("", "attrs.field(converter=check)", "def check(n):\n    return n + {}\n"),
    "factories": ("", "attrs.field(factory=check)", "def check():\n    return {}\n"),
    "keys of equality": ("", "attrs.field(eq=check)", "def check(n):\n    return n % {}\n"),
    "how a field is shown": ("", "attrs.field(repr=check)", "def check(n):\n    return str(n % {})\n"),
    "metadata": ("", "attrs.field(metadata={{'a': check()}})", "def check():\n    return {}\n"),
}


@pytest.mark.parametrize("what", ATTRS)
def test_what_attrs_is_told_of_a_field_counts(what: str) -> None:
    _, told, check = ATTRS[what]
    fields = f"    a: int = {told.replace('{{', '{').replace('}}', '}')}\n"
    use = "def f(n):\n    return {name}"
    one, other = (record("attrs", fields, before=check.format(n), use=use) for n in (3, 4))
    assert identity(one) == identity(one)
    assert identity(one) != identity(other)


@pytest.mark.parametrize(
    "option", ["kw_only=True", "eq=False", "order=False", "hash=False", "alias='c'", "init=False", "repr=False"]
)
def test_options_of_fields_count(option: str) -> None:
    use = "def f(n):\n    return {name}"
    one, other = (record("attrs", f"    a: int = attrs.field(default=None{more})\n", use=use) for more in ("", f", {option}"))
    assert identity(one) != identity(other)


OPTIONS = [
    "eq=False",
    "order=True",
    "kw_only=True",
    "slots=False",
    "cache_hash=True, frozen=True",
    "unsafe_hash=True, eq=False",
    "frozen=False",
]


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_attrs_count(option: str) -> None:
    text = record("attrs", use="def f(n):\n    return {name}(a=1)")
    assert identity(text) != identity(re.sub(r"@attrs.frozen", f"@attrs.define({option})", text))


@pytest.mark.parametrize("option", ["eq=False", "order=True", "unsafe_hash=True", "repr=False"])
def test_options_of_dataclasses_count(option: str) -> None:
    text = record("dataclass", use="def f(n):\n    return {name}(1)")
    assert identity(text) != identity(text.replace("frozen=True", f"frozen=True, {option}"))


@pytest.mark.parametrize("maker", MAKERS)
def test_records_in_records_count(maker: str) -> None:
    inner = "{}@attrs.frozen\nclass Inner:\n    c: {}\n    def m(self):\n        return {}\n"
    def outer(kind: str, result: int, name: str = "Row") -> str:
        before = inner.format("import attrs\n", kind, result)
        return record(maker, "    a: Inner\n", "", name=name, before=before, use="def f(n):\n    return {name}(n).a.m()")

    assert identity(outer("int", 1)) == identity(outer("int", 1, "Other"), module="coded_otherwise")
    assert identity(outer("int", 1)) != identity(outer("float", 1))
    assert identity(outer("int", 1)) != identity(outer("int", 2))


def test_what_columns_are_named_counts() -> None:
    fields = "    a: Annotated[int, column('{}')]\n"
    before = "from typing import Annotated\nfrom tracetypes import column\n"
    one, other = (record("attrs", fields.format(name), before=before) for name in ("x", "y"))
    assert identity(one) != identity(other)


def test_names_of_the_members_of_a_union_count() -> None:
    """Texts name them, and their order is that of their names."""
    inner = "import attrs\n@attrs.frozen\nclass {}:\n    c: int\n@attrs.frozen\nclass {}:\n    d: int\n"
    one, other = (
        record("attrs", f"    a: {a} | {b}\n", before=inner.format(a, b)) for a, b in (("Cat", "Dog"), ("Dog", "Cat"))
    )
    assert identity(one) != identity(other)


def test_cached_properties_count() -> None:
    method = "    def m(self):\n        return self.p\n    @functools.cached_property\n    def p(self):\n        return {}\n"
    for maker in ("attrs", "dataclass"):
        one, other = (record(maker, methods=method.format(n), before="import functools\n") for n in (1, 2))
        assert identity(one) == identity(one)
        assert identity(one) != identity(other)


def test_a_class_that_a_function_changes_is_not_identified() -> None:
    text = record("dataclass") + "\ndef g():\n    Row.m = None\n"
    assert "the class Row is changed by g()" in reason(text)


def test_instances_count_by_class_and_fields() -> None:
    text = record("attrs", use="X = {name}({n})\ndef f(n):\n    return X.a".replace("{n}", "{{n}}"))
    assert identity(text.format(n=1)) == identity(text.replace("Row", "Other").format(n=1))
    assert identity(text.format(n=1)) != identity(text.format(n=2))

"""The documentation says what is so: its programs run, its errors are raised, its output is what is really printed."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import tracetypes.testing
from tests import pictures
from tests.page_programs import page_programs
from tests.pages import ROOT, TOUR, Page, blocks, idioms, sessions, write_tour, written
from tests.test_imports import sources
from tests.test_layers import LEVELS, layer
from tests.test_typing import refused_by_basedpyright
from tracetypes import CheckFailed, Dataflow, Item, TraceTypesError, check, stdlib
from tracetypes.arrangement import arrange
from tracetypes.formats import JsonLines
from tracetypes.interpreter import interpret
from tracetypes.parsing import Row, text_parser
from tracetypes.plain_data import to_plain
from tracetypes.records import Mismatch
from tracetypes.sources import reader
from tracetypes.stdlib import extremes, lists, lookups, per_block, products, sketches, stateless, sums

README, ERRORS = ROOT / "README.md", ROOT / "docs" / "errors.md"
OPERATORS = ROOT / "docs" / "operators.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [path for folder in ("tracetypes", "compiler", "stdlib") for path in sorted((ROOT / folder).rglob("*.py"))]
CODE = re.compile(r"\bTT\d\d\d\b")


def without_blocks(text: str) -> str:
    """The prose."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def load(path: Path) -> ModuleType:
    """Run a file as a module that functions and records of it can be found in."""
    name = f"docs_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


# ------------------------------------------------------------------------------------------------- every page


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_epochs_are_called_micro_batches_on_pages_about_spark_alone(path: Path) -> None:
    """As docs/words.md has it. What a run prints is no prose."""
    about_spark = ["cluster", "execution", "transform", "benchmarks", "architecture", "sizing"]
    about_spark += ["workspace", "words", "README", "CHANGELOG"]
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert path.stem in about_spark or "icro-batch" not in re.sub(r"[^.|]*Spark[^.|]*[.|]", "", prose)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = without_blocks(path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = path if not file else (path.parent / file).resolve()
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(without_blocks(there.read_text(encoding="utf-8"))), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:docs|examples|benchmarks|scripts|tests|tracetypes|compiler|stdlib)/[\w./]+)`", text):
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
    folders = "|".join(path.name for path in (ROOT / "compiler").iterdir() if path.name != "__pycache__")
    for name in re.findall(rf"`((?:{folders})/[\w/]+)`", text):
        assert (ROOT / "compiler" / name).exists() or (ROOT / "compiler" / f"{name}.py").exists(), name
    for name in re.findall(r"python -m ((?:examples|benchmarks|tests)[\w.]*)", text):
        assert (ROOT / name.replace(".", "/")).with_suffix(".py").exists(), name


# -------------------------------------------------------------------------------------------- README and tour


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The README's program with its mistake, and without, and what runs it."""
    wrong, last, runs, rides = blocks(README.read_text(encoding="utf-8"), "python")
    right = "\n".join(wrong.splitlines()[:-1]) + "\n" + last
    programs = {"gaps.py": wrong, "right.py": right, "runs.py": runs.replace("from gaps ", "from right "), "rides.py": rides}
    return written(tmp_path_factory.mktemp("readme"), README, programs)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The tour's programs."""
    return write_tour(tmp_path_factory.mktemp("tour"))


@pytest.fixture(scope="module")
def idiom_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The programs of ``docs/coming_from.md``."""
    files = []
    folder = tmp_path_factory.mktemp("idioms")
    for at, idiom in enumerate(idioms(), 1):
        files.append(folder / f"idiom_{at}.py")
        files[-1].write_text(idiom.program, encoding="utf-8")
    return files


WHOLE = ("sources", "types")
"""Pages whose blocks are one program that runs as it stands."""


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The programs of all pages but those that have a fixture of their own."""
    folder, files = tmp_path_factory.mktemp("pages"), list[Path]()
    for name, text in page_programs():
        files.append(folder / f"{name}.py")
        files[-1].write_text(text, encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def all_files(
    readme: Page, tour: Page, programs: dict[str, Path], idiom_files: list[Path], page_files: list[Path]
) -> list[Path]:
    """All programs of the documentation but those that are wrong at run time."""
    right = [path for name, path in programs.items() if "right" in name]
    return [*readme.files, *tour.files, *right, *idiom_files, *page_files]


@pytest.fixture(scope="module")
def mypy(all_files: list[Path]) -> Callable[[Path], str]:
    """What mypy --strict says of a program: of all of them in one run."""
    files = [str(path) for path in all_files]
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir=.mypy_cache/docs"]
    options.append("--disable-error-code=import-untyped")  # pyarrow has no types
    options += ["--allow-redefinition", "--local-partial-types"]  # one page is one program, and uses names again
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--scripts-are-modules", "--explicit-package-bases", *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode in (0, 1), run.stderr + run.stdout

    def said(path: Path) -> str:
        lines = [line for line in run.stdout.splitlines() if re.match(rf"\S*\b{re.escape(path.name)}:\d+:", line)]
        return "\n".join(re.sub(r"^\S*/", "", line) for line in lines)

    return said


def unnumbered(text: str) -> str:
    """Without line numbers."""
    return re.sub(r"(\.py):\d+", r"\1", text)


def printed(words: list[str], folder: Path) -> str:
    """What a command of ours prints in a folder, with the folder left out."""
    done = subprocess.run(
        [sys.executable, "-m", "tracetypes.cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return (done.stdout + done.stderr).replace(f"{folder}/", "")


def commands(page: str, *wanted: str) -> list[tuple[list[str], str]]:
    """The commands of ours on a page of which the output is shown."""
    found = [
        (words[1:], output)
        for words, output in sessions(page)
        if Path(words[0]).name == "tracetypes" and words[1] in wanted and output
    ]
    assert found
    return found


def test_the_readme_has_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert blocks(text, "sh")[0] == "make demo\nmake test\n"
    assert set(re.findall(r"\bmake (\w+)\b", "".join(re.findall(r"`[^`]+`", text)))) == {"demo", "test"}
    targets = (ROOT / "scripts" / "run.sh").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name}\)$", targets, re.MULTILINE) for name in ("demo", "test"))


def test_what_mypy_says_in_the_readme(readme: Page, mypy: Callable[[Path], str]) -> None:
    ((_, shown),) = [(words, output) for words, output in sessions(readme.text) if words[0].endswith("mypy")]
    wrong, right, runs, _ = readme.files
    *messages, last = shown.splitlines()
    assert unnumbered("\n".join(messages)) == unnumbered(mypy(wrong))
    assert last == "Found 1 error in 1 file (checked 1 source file)"
    at = len(wrong.read_text(encoding="utf-8").splitlines())
    assert mypy(wrong).startswith(f"gaps.py:{at}: error:"), "the mistake is the last line"
    assert mypy(right) == mypy(runs) == ""


@pytest.mark.nightly
def test_the_readme_runs(readme: Page) -> None:
    """From Python, on Spark."""
    (shown,) = blocks(readme.text, "text")
    done = subprocess.run(
        [sys.executable, "runs.py"], cwd=readme.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert done.stdout.decode() == shown, done.stderr.decode()


def test_the_first_gate_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the local backend."""
    text = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    program = tmp_path / "air.py"
    program.write_text(blocks(text, "python")[0], encoding="utf-8")
    load(program)
    assert capsys.readouterr().out == blocks(text, "text")[0]


def test_the_gate_that_learns_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "learned_air.py"
    program.write_text(dict(page_programs())["page_gates_3"], encoding="utf-8")
    load(program)
    assert "accuracy=1.0" in capsys.readouterr().out
    assert (tmp_path / "models" / "model-000001.json").is_file()


def test_the_readme_installs_in_five_lines() -> None:
    _, lines = blocks(README.read_text(encoding="utf-8"), "sh")
    assert len(lines.splitlines()) == 5
    extras = set(re.findall(r"\w+", lines.partition("extras:")[2].partition("\n")[0]))
    extras |= set(re.findall(r"'\.\[(\w+)\]'", lines))
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras == declared.keys() - {"dev"}
    for script in re.findall(r"scripts/\w+\.sh", lines):
        assert (ROOT / script).exists()


def test_what_the_checker_says_in_the_readme(readme: Page) -> None:
    refused, accepted = (output for _, output in commands(readme.text, "check"))
    assert unnumbered(printed(["check", "gaps.py"], readme.folder)) == unnumbered(refused)
    assert printed(["check", "right.py"], readme.folder) == accepted


def test_mypy_accepts_the_tour(tour: Page, mypy: Callable[[Path], str]) -> None:
    clicks, right, wrong = tour.files
    assert mypy(clicks) == mypy(right) == ""
    assert "LinearInterpolation" in mypy(wrong)
    ((_, shown),) = [(words, output) for words, output in sessions(tour.text) if words[0] == "mypy"]
    assert shown == "Success: no issues found in 1 source file\n"


def test_the_tests_of_the_tour_pass(tour: Page) -> None:
    module = load(tour.files[1])
    module.test_gaps_are_filled()
    module.test_deployments()
    (mark,) = module.test_laws.pytestmark
    for law in mark.args[1]:
        law.check(10)


def test_what_check_and_explain_say_in_the_tour(tour: Page) -> None:
    for words, output in commands(tour.text, "check", "explain"):
        assert printed(words, tour.folder) == output, words


def test_what_test_says_in_the_tour(tour: Page) -> None:
    ((words, output),) = commands(tour.text, "test")
    assert printed([*words, "--examples", "10"], tour.folder) == output


class Answer(NamedTuple):
    """What a run gives, as the lines of its files would say it."""

    rows: list[Any]
    late: list[Any]
    rejects: list[Any]


def answered(flow: Dataflow, lines: list[str]) -> Answer:
    """What the definition says of a flow with one source and one sink, for a file of JSON lines."""
    checked = check(flow)
    (source,), (sink,) = checked.graph.sources, checked.graph.sinks
    parse, read = text_parser(JsonLines(), checked.layout(source), None), reader(source).read

    def row(line: str) -> Row:
        try:
            return read(*parse(line))
        except Mismatch as error:
            return Row("reject", reason=str(error))

    arranged = arrange(source, map(row, lines), drain=True)
    trace = interpret(checked, {source.name: arranged.items})[sink.name]
    layout, stream = checked.layout(sink), checked.streams[source.id]
    return Answer(
        [layout.plain(e.key, e.value) for e in trace if isinstance(e, Item)],
        [
            {
                "reason": late.reason,
                "row": {"key": to_plain(stream.key, late.key), "value": to_plain(stream.value, late.value)},
            }
            for late in arranged.late
        ],
        [{"reason": reason, "row": lines[at]} for at, reason in arranged.rejects],
    )


def parsed(block: str) -> list[Any]:
    """The lines of a JSON block, in an order of their own."""
    return sorted(map(json.loads, block.splitlines()), key=repr)


def test_what_explain_says_of_columns(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "columns.md").read_text(encoding="utf-8")
    (tmp_path / "loads.py").write_text(blocks(page, "python")[0], encoding="utf-8")
    assert blocks(page, "text")[0] in printed(["explain", "loads.py"], tmp_path)


def test_the_answer_in_the_readme(readme: Page) -> None:
    given, rows = blocks(readme.text, "json")
    answer = answered(load(readme.files[1]).flow, given.splitlines())
    assert sorted(answer.rows, key=repr) == parsed(rows)
    assert answer.late == answer.rejects == []


def test_the_answer_in_the_tour(tour: Page) -> None:
    _, given, *shown = blocks(tour.text, "json")
    answer = answered(load(tour.files[1]).filled, given.splitlines())
    assert [sorted(part, key=repr) for part in answer] == list(map(parsed, shown))


def test_every_output_of_the_tour_has_a_test(tour: Page) -> None:
    """``tests/spark/test_tour.py`` has those of ``run``, the tests above the others."""
    shown = [words[: 1 + (words[0] == "tracetypes")] for words, output in sessions(tour.text) if output]
    assert set(map(" ".join, shown)) == {"mypy", *(f"tracetypes {one}" for one in ("run", "check", "explain", "test"))}
    assert not blocks(tour.text, "text")
    assert len(blocks(tour.text, "json")) == 5


def test_the_tour_is_the_example() -> None:
    """The operators of the tour are those of the repository's example."""
    example = (ROOT / "examples" / "sensors.py").read_text(encoding="utf-8")
    for block in blocks(TOUR.read_text(encoding="utf-8"), "python"):
        if block.startswith("@attrs.frozen"):
            assert block in example


# ------------------------------------------------------------------------------------------------- pictures and map


@pytest.mark.parametrize("file", pictures.PICTURES)
def test_pictures_are_those_that_we_draw(file: str) -> None:
    """`python -m tests.pictures` draws them again."""
    assert (ROOT / file).read_text(encoding="utf-8") == pictures.drawn(file)
    assert any(file.removeprefix("docs/") in page.read_text(encoding="utf-8") for page in DOCUMENTS)


def test_the_picture_of_the_layers_has_every_layer_in_its_order() -> None:
    shown = [layer for band in pictures.BANDS.values() for layer in band]
    assert set(shown) == {layer(module) for module, _ in sources()}
    levels = [LEVELS[one] for one in shown]
    assert levels == sorted(levels)


def test_the_table_of_modules_has_every_module_once() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    table = text.partition("\n## Modules\n")[2].partition("\n## ")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`([\w/]+)`", row.split("|")[1] if row else "")]
    assert len(named) == len(set(named)), "a module is there twice"
    folders = [name for name in named if name.endswith("/")]
    modules = {
        module.removeprefix("tracetypes.compiler.").replace("tracetypes.stdlib.", "stdlib.").replace(".", "/")
        for module, path in sources()
        if path.stem not in ("__init__", "__main__")
    }
    there = {next((one for one in folders if module.startswith(one)), module) for module in modules}
    assert set(named) == there


def test_what_is_where_it_is_said_to_be() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("\n## Where is what\n")[2].partition("\n## ")[0]
    answers = re.findall(r"`([\w/]+)`: ((?:`[\w.]+`(?: and )?)+)", table)
    assert len(answers) > 20
    for module, names in answers:
        path = ROOT / module if module.startswith("tracetypes/") else ROOT / "compiler" / module
        tree: ast.AST = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
        for name in re.findall(r"`([\w.]+)`", names):
            node = tree
            for part in name.split("."):
                inside = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.FunctionDef | ast.ClassDef))
                found = next((one for one in inside if one.name == part), None)
                assert found is not None, f"{module}: {name}"
                node = found


# ------------------------------------------------------------------------------------------------- operators


def test_the_examples_of_the_operators_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    examples = "\n".join(blocks(OPERATORS.read_text(encoding="utf-8"), "python"))
    made = doctest.DocTestParser().get_doctest(examples, {"__name__": "__main__"}, "operators.md", None, 0)
    said: list[str] = []
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(made, out=said.append).attempted > 10
    assert not said, "".join(said)


def test_every_operator_is_in_the_table() -> None:
    """All that the library exports of part A has a row of a table."""
    text = OPERATORS.read_text(encoding="utf-8")
    rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    for module in (extremes, lists, lookups, per_block, products, sketches, stateless, sums):
        for name in set(module.__all__) & set(stdlib.__all__):
            assert re.search(rf"`{name}\b", rows), name


# ------------------------------------------------------------------------------------------------- errors


def sections() -> dict[str, str]:
    """The sections of ``docs/errors.md`` by code."""
    text = ERRORS.read_text(encoding="utf-8")
    found = re.findall(r"^### (TT\d\d\d)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(found) == len(dict(found)), "two sections for one code"
    return dict(found)


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    used = {code for path in SOURCES for code in CODE.findall(path.read_text(encoding="utf-8"))}
    assert sorted(sections()) == sorted(used)
    assert list(sections()) == sorted(sections())


def test_codes_that_the_documents_name_exist() -> None:
    for path in DOCUMENTS:
        assert set(CODE.findall(path.read_text(encoding="utf-8"))) <= set(sections()), path


def error_programs() -> list[tuple[str, str, str]]:
    """Code, ``wrong`` or ``right``, and text of each program in ``docs/errors.md``."""
    found = []
    for code, body in sections().items():
        for block in blocks(body, "python"):
            kind = re.match(r"# (wrong|right)\b", block)
            assert kind is not None, f"{code}: a program begins with '# wrong' or '# right'"
            found.append((code, kind[1], block))
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The programs of ``docs/errors.md`` in files, with what they begin with."""
    folder = tmp_path_factory.mktemp("errors")
    start = blocks(ERRORS.read_text(encoding="utf-8"), "python")[0]
    made = {}
    for code, kind, block in error_programs():
        path = made[f"{code}-{kind}"] = folder / f"{code}_{kind}.py"
        path.write_text(start + "\n\n" + block, encoding="utf-8")
    return made


@pytest.mark.parametrize("name", [f"{code}-{kind}" for code, kind, _ in error_programs()])
def test_programs_of_the_errors(name: str, programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong program raises its code, all of its violations that code; a right one raises nothing."""
    code, _, kind = name.partition("-")
    few = 10 if kind == "right" else 25
    monkeypatch.setattr(tracetypes.testing, "check_laws", partial(tracetypes.testing.check_laws, max_examples=few))
    if kind == "right":
        load(programs[name])
        return
    with pytest.raises(TraceTypesError) as raised:
        load(programs[name])
    if isinstance(raised.value, CheckFailed) and code != "TT100":
        assert {violation.code for violation in raised.value.violations} == {code}
    else:
        assert raised.value.code == code


def test_every_section_shows_what_is_wrong_and_what_is_right() -> None:
    for code, body in sections().items():
        kinds = [kind for other, kind, _ in error_programs() if other == code]
        if code.startswith("TT1") or (code.startswith("TT3") and code != "TT313"):  # TT313 takes two processes
            assert kinds == ["wrong", "right"], code
        else:
            texts = "".join(blocks(body, "text"))
            shown = kinds == ["wrong", "right"] or ("wrong:" in texts and "right:" in texts) or blocks(body, "console")
            assert shown or code == "TT000", code


def test_mypy_accepts_the_right_programs(programs: dict[str, Path], mypy: Callable[[Path], str]) -> None:
    assert "\n".join(said for name, path in programs.items() if "right" in name and (said := mypy(path))) == ""


def test_every_python_block_is_checked(page_files: list[Path]) -> None:
    """By mypy and by basedpyright, in one of the tests below."""
    others = {"tour", "errors", "coming_from"}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if blocks(path.read_text(encoding="utf-8"), "python")}
    assert pages - others == {re.sub(r"page_([a-z]+).*", r"\1", path.stem) for path in page_files}


def test_mypy_accepts_the_pages(page_files: list[Path], mypy: Callable[[Path], str]) -> None:
    assert "\n".join(filter(None, map(mypy, page_files))) == ""


def test_basedpyright_accepts_the_programs_of_the_documentation(all_files: list[Path], readme: Page) -> None:
    """What editors show: nothing but the two mistakes that the README and the tour make on purpose."""
    _, right, runs, _ = readme.files  # one file: it looks for modules here, and not beside a file
    whole = readme.folder / "whole.py"
    whole.write_text(right.read_text() + re.sub(r"^from right import .*\n", "", runs.read_text(), flags=re.MULTILINE))
    refused = refused_by_basedpyright(*(one for one in all_files if one != runs), whole)
    on_purpose = {"gaps.py", "unsorted.py"}
    assert sorted(place for place in refused if place[0] not in on_purpose) == []
    assert {name for name, _ in refused} == on_purpose


def test_mypy_accepts_the_idioms(idiom_files: list[Path], mypy: Callable[[Path], str]) -> None:
    assert "\n".join(filter(None, map(mypy, idiom_files))) == ""


def test_commands_of_the_errors() -> None:
    for words, output in commands(ERRORS.read_text(encoding="utf-8"), "run", "check"):
        assert printed(words, ROOT) == output, words


@pytest.mark.parametrize("name", WHOLE)
def test_programs_about_sources_and_types(tmp_path: Path, name: str) -> None:
    """They are one program, and nothing in it is wrong."""
    page = ROOT / "docs" / f"{name}.md"
    program = tmp_path / f"{name}.py"
    program.write_text("\n".join(blocks(page.read_text(encoding="utf-8"), "python")), encoding="utf-8")
    load(program)

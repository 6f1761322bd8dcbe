"""Directories that are read and those that are written lie apart, links resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracetypes import UsageError
from tracetypes.compiler.store.overlap import refuse_overlaps


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """``in/deep``, ``out``, and links between them."""
    for name in ("in/deep", "in/self", "linked/deep", "out", "elsewhere/below"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "in/a.jsonl").touch()
    (tmp_path / "out/b.jsonl").touch()
    (tmp_path / "in/self/again").symlink_to(tmp_path / "in")
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    (tmp_path / "linked/deep/out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "linked/_hidden").symlink_to(tmp_path / "out")
    (tmp_path / "files").mkdir()
    (tmp_path / "files/b.jsonl").symlink_to(tmp_path / "out/b.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("in", "in"),
        ("in", "in/out"),
        ("in", "in/deep"),
        ("in", "in/_checkpoint"),
        ("in/deep", "in"),
        ("in/a.jsonl", "in"),
        ("alias", "in/out"),
        ("in", "alias/out"),
        ("alias/deep", "in"),
        ("in/self", "in/deep"),
        ("linked", "elsewhere"),
        ("linked", "elsewhere/below/out"),
        ("files", "out"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "delta:", "file://"])
def test_TT222_an_input_and_an_output_that_overlap(place: Path, read: str, written: str, scheme: str) -> None:
    with pytest.raises(
        UsageError, match=r"^TT222 source 'src' reads .*, and the checkpoint is .*: one lies in the other"
    ):
        refuse_overlaps({"src": f"{scheme}{place / read}"}, {"the checkpoint": f"{scheme}{place / written}"})


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("in", "out"),
        ("in", "in-out"),
        ("in/a.jsonl", "in/out"),
        ("linked", "out"),
        ("in/deep", "in/deeper"),
        ("none", "out"),
    ],
)
def test_what_lies_apart(place: Path, read: str, written: str) -> None:
    refuse_overlaps({"src": str(place / read)}, {"the output": str(place / written)})


def test_what_is_not_on_a_disk_overlaps_with_nothing() -> None:
    topic = "kafka://broker:9092/clicks"
    refuse_overlaps({"a": topic, "b": "s3a://bucket/in"}, {"x": topic, "y": "noop:", "z": "s3a://bucket/in"})

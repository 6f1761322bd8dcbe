"""The backup of a service: tokens, flows and outputs come back, and the flows go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.workspace.test_service import OPERATORS, REGISTRY, rows, start, totals, until
from tracetypes.cli import main
from tracetypes.workspace_client import WorkspaceClient


def come(folder: Path, number: int) -> None:
    clicks = [{"user": "u", "ts": 1000 * number + ts, "cents": 5} for ts in (10, 20, 70, 130)]
    hidden = folder / "clicks" / f".{number}"
    hidden.write_text("".join(json.dumps(one) + "\n" for one in clicks))
    hidden.rename(folder / "clicks" / f"{number}.jsonl")


def test_a_service_goes_on_from_its_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, backup = tmp_path / "service", tmp_path / "saved"
    (folder / "clicks").mkdir(parents=True)
    (folder / "hostile.py").write_text(OPERATORS)
    (folder / "registry.toml").write_text(REGISTRY)
    come(folder, 0)
    served = start(folder)
    with served.administrator() as administrator:
        token = administrator.make_token("ann", "owner").token
    with WorkspaceClient(served.url, token) as ann:
        ann.submit("spent", totals())
        assert rows(ann, "spent") == [10, 5]
    assert main(["workspace", "backup", str(folder), str(backup)]) == 1
    assert "TT221 the service" in capsys.readouterr().err
    served.stop()
    assert main(["workspace", "backup", str(folder), str(folder / "private" / "saved")]) == 2
    assert "lies in" in capsys.readouterr().err
    assert main(["workspace", "backup", str(folder), str(backup)]) == 0
    assert capsys.readouterr().out == f"{backup}: a backup of {folder}, 1 workspace and 1 output\n"
    assert ((backup / "private").stat().st_mode & 0o777) == 0o700
    assert main(["workspace", "restore", str(backup), str(tmp_path / "elsewhere")]) == 2
    assert "where its outputs are" in capsys.readouterr().err
    for lost in ("private", "shared"):
        assert main(["workspace", "restore", str(backup), str(folder)]) == 2
        assert "is there already" in capsys.readouterr().err
        shutil.rmtree(folder / lost)
    shutil.rmtree(folder / "outputs")
    assert main(["workspace", "restore", str(backup), str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: restored from {backup}, 1 workspace and 1 output\n"
    come(folder, 1)
    served = start(folder)
    try:
        with WorkspaceClient(served.url, token) as ann:
            assert [one.name for one in ann.flows()] == ["spent"]
            until(lambda: len(list(ann.rows("spent", "out"))) > 4)
            ann.remove("spent", drain=True)  # answers what is there: nothing came twice
        outputs = sorted((folder / "outputs" / "ann" / "totals").glob("*.jsonl"))
        values = [json.loads(line)["value"] for one in outputs for line in one.read_text().splitlines()]
        assert values == [10, 5, 5, 5, 10, 5]
    finally:
        served.stop()

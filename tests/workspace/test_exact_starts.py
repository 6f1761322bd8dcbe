"""Flows with ``share="exact"`` that begin where a state that runs begins, or where one seems to begin."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from tests.workspace.clicks import answer, totals
from tests.workspace.test_workspace import Shop, failing, open_workspace, shop
from tracetypes.errors import OperatorFailed
from tracetypes.workspace import Workspace

__all__ = ["open_workspace", "shop"]


def test_flows_that_begin_together_share_their_states(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """Nothing comes between their submits, so they begin at one marker. The second one took for ever to be submitted."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", totals("bob", size=600), share="exact")
    assert shop.submit(workspace, "cat", totals("cat", size=600, changes=True), share="exact") == begins > 0
    assert (workspace.show()["cat"].shared, workspace.show()["cat"].brings) == (4, ())
    shop.come(600)
    workspace.wait()
    assert shop.submit(workspace, "dan", totals("dan", size=600), share="exact") > begins
    assert workspace.show()["dan"].shared == 1
    for name in ("bob", "cat", "dan", "ann"):
        workspace.remove(name, drain=True)
    assert shop.rows("bob") == answer(shop.clicks, size=600, window=begins) != []
    assert shop.rows("cat") == answer(shop.clicks, size=600, changes=True, window=begins, change=begins) != []
    assert shop.rows("ann") == answer(shop.clicks)


def test_states_whose_stream_is_gone_are_not_shared(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """Bob's sums begin where Cat begins, but his readers have read the first of them. So Cat gets her own."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", totals("bob"), share="exact")
    shop.submit(workspace, "keeps", failing())  # it keeps the channel of the source
    for start in (600, 1200, 1800):
        shop.come(start)
        for name in ("ann", "bob"):
            workspace.wait(name)
    at = dt.datetime.fromtimestamp(begins, dt.UTC)
    assert shop.submit(workspace, "cat", totals("cat", changes=True), share="exact", start=at) == begins
    assert workspace.show()["cat"].shared == 1
    workspace.remove("keeps")
    for name in ("cat", "bob", "ann"):
        workspace.remove(name, drain=True)
    assert shop.rows("cat") == answer(shop.clicks, changes=True, window=begins, change=begins) != []
    assert shop.rows("bob") == answer(shop.clicks, window=begins)


def test_states_that_began_later_are_not_shared(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """The source still has all. Ann's sums begin later than Bob, who reads all from its beginning."""
    workspace = open_workspace()
    shop.submit(workspace, "keeps", failing())
    with pytest.raises(OperatorFailed):
        workspace.wait("keeps", 60)
    begins = shop.submit(workspace, "ann")
    assert begins > 0
    assert shop.submit(workspace, "bob", totals("bob"), share="exact", start="earliest") == 0
    assert workspace.show()["bob"].shared == 1
    shop.come(600)
    workspace.remove("keeps")
    for name in ("bob", "ann"):
        workspace.remove(name, drain=True)
    assert shop.rows("bob") == answer(shop.clicks)
    assert shop.rows("ann") == answer(shop.clicks, window=begins)

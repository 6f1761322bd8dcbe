"""Where a run may have its checkpoint: on a disk; with Spark also on an object store."""

from __future__ import annotations

from tracetypes.compiler.connectors.store_address import StoreAddress, is_store
from tracetypes.compiler.store.overlap import local
from tracetypes.errors import UsageError

__all__ = ["refuse_checkpoint"]


def refuse_checkpoint(address: str, backend: str, *, gated: bool, overwrites: bool) -> None:
    """Refuse a checkpoint where there can be none. ``gated``: whether the dataflow has a gate. ``overwrites``: whether the run
    removes an earlier one. Raises :class:`UsageError` ``TT402``."""
    what, disk = f"--checkpoint {address}", "give a directory of a local or mounted disk"
    if not is_store(address):
        if local(address) is None:
            raise UsageError("TT402", f"{what} is not local", fix=f"{disk}, or s3://BUCKET/KEY with --backend spark")
        return
    StoreAddress.of(address)
    if backend != "spark":
        fix = f"{disk}, or --backend spark"
        raise UsageError("TT402", f"{what}: the backend {backend!r} keeps its checkpoint on a disk", fix=fix)
    if not address.startswith("s3://"):
        raise UsageError("TT402", f"{what}: of all stores, only s3:// keeps checkpoints", fix=f"{disk}, or s3://BUCKET/KEY")
    if gated:
        raise UsageError("TT402", f"{what}: what a gate holds lies on a disk", fix=disk)
    if overwrites:
        raise UsageError("TT402", f"{what}: --overwrite removes no objects", fix="give another --checkpoint and output")

"""Addresses of objects: ``s3://BUCKET/KEY``, ``gs://BUCKET/KEY``, ``az://CONTAINER/KEY``, ``https://HOST/PATH``.

An address never has credentials. They come from the environment, so they are in no command, message, log or checkpoint.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import attrs

from tracetypes.errors import UsageError

__all__ = ["STORES", "StoreAddress", "is_store"]

STORES: Final = ("s3", "gs", "az", "https", "http")

_STARTS: Final = tuple(f"{scheme}://" for scheme in STORES)


def is_store(address: str) -> bool:
    """Whether an address is that of objects, which workers read themselves."""
    return address.startswith(_STARTS)


@attrs.frozen
class StoreAddress:
    """``place``: the bucket, the container, or the host with its port. ``key``: of an object, or of a folder of objects."""

    scheme: str
    place: str
    key: str

    @classmethod
    def of(cls, text: str) -> StoreAddress:
        """The address of a text. Raises :class:`UsageError` ``TT402`` for one with credentials, and for one without a bucket."""
        scheme, _, rest = text.partition("://")
        place, _, key = rest.partition("/")
        if "@" in place or (":" in place and scheme in ("s3", "gs", "az")):
            raise UsageError(
                "TT402",
                f"an address {scheme}:// has a name or a password before its {_PLACES[scheme]}",
                fix=f"write {scheme}://{_PLACES[scheme].upper()}/..., and give credentials by {_VARIABLES[scheme]}",
            )
        if mark := next((mark for mark in "?#" if mark in rest), None):
            raise UsageError(
                "TT402",
                f"an address {scheme}:// of {place or 'nothing'} has a {mark!r}: what is behind it may be a secret",
                fix=f"end the address before {mark!r}, and give credentials by {_VARIABLES[scheme]}",
            )
        if not place:
            raise UsageError(
                "TT402", f"{text} names no {_PLACES[scheme]}", fix=f"write {scheme}://{_PLACES[scheme].upper()}/..."
            )
        if any(name in ("", ".", "..") for name in key.removesuffix("/").split("/")) and key:
            raise UsageError(
                "TT402", f"{text} has an empty name, '.' or '..' between its slashes", fix=f"write {scheme}://{place}/FOLDER/..."
            )
        return cls(scheme, place, key)

    @classmethod
    def listed(cls, path: str) -> StoreAddress:
        """That of an object that a store has listed: its key may have any characters."""
        scheme, _, rest = path.partition("://")
        place, _, key = rest.partition("/")
        return cls(scheme, place, key)

    @property
    def is_web(self) -> bool:
        """Whether it is a file of a web server, which lists nothing."""
        return self.scheme in ("https", "http")

    @property
    def name(self) -> str:
        """The key as the store takes it."""
        return unquote(self.key) if self.is_web else self.key

    @property
    def variables(self) -> str:
        """Where credentials come from."""
        return _VARIABLES[self.scheme]

    def beside(self, key: str) -> str:
        """The address of another key there."""
        return f"{self.scheme}://{self.place}/{key}"


_PLACES: Final = {"s3": "bucket", "gs": "bucket", "az": "container", "https": "host", "http": "host"}

_WEB: Final = "a server that needs none"

_VARIABLES: Final = {
    "s3": "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "https": _WEB,
    "http": _WEB,
}
"""The variables of the environment, in words for a message."""

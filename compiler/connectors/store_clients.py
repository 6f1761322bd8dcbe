"""Clients of object stores, with credentials of the environment or of a profile.

The clients are those of ``obstore``, which reads ``AWS_*``, ``GOOGLE_*`` and ``AZURE_*`` of the environment itself. Profiles are
files that it does not read, so they are read here.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.errors import UsageError

__all__ = ["client", "delta_options", "require_client"]

PATIENCE = 60.0
"""Seconds in which a request is sent again, at most, where the store does not answer."""

_PREFIXES: Final = ("AWS_", "GOOGLE_", "AZURE_", "HTTP_PROXY", "HTTPS_PROXY")

_ENDPOINTS: Final = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL"),
    *("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
)
"""Variables that name another server than the provider's."""


def require_client() -> None:
    """Raises :class:`UsageError` ``TT401`` if the package is not installed."""
    if importlib.util.find_spec("obstore") is None:
        raise UsageError("TT401", "obstore is not installed", fix="pip install 'tracetypes[stores]'")


def client(address: StoreAddress) -> Any:
    """The client of a bucket, a container or a host. A process keeps it, as long as the environment stays as it is."""
    variables = tuple(sorted((name, value) for name, value in os.environ.items() if name.upper().startswith(_PREFIXES)))
    return _client(os.getpid(), address.scheme, address.place, variables)


@lru_cache(maxsize=64)
def _client(process: int, scheme: str, place: str, variables: tuple[tuple[str, str], ...]) -> Any:
    """``process``: a client does not survive a fork."""
    from obstore import store

    for name, value in variables:
        if name in _ENDPOINTS:
            _check_url(name, value)
    plain = any(name in _ENDPOINTS and value.startswith("http://") for name, value in variables)
    options: dict[str, Any] = {
        "client_options": {"allow_http": True} if plain or scheme == "http" else {},
        "retry_config": {"retry_timeout": timedelta(seconds=PATIENCE)},
    }
    match scheme:
        case "s3":
            return store.S3Store(place, **_of_profile(dict(variables)), **options)
        case "gs":
            return store.GCSStore(place, **options)
        case "az":
            return store.AzureStore(place, **options)
        case _:
            return store.HTTPStore(f"{scheme}://{place}", **options)


def delta_options() -> dict[str, str]:
    """What delta-rs is told of S3: it reads the environment itself, too, but no profiles."""
    variables = dict(os.environ)
    found = _of_profile(variables)
    if "credential_provider" in found:
        raise UsageError(
            "TT402", "the profile of AWS has no keys, and Delta tables need some",
            fix="give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    names = {"endpoint": "endpoint_url", "allow_http": "allow_http"}
    options = {f"aws_{names.get(name, name)}": str(value).lower() for name, value in found.items() if value is True}
    options |= {f"aws_{names.get(name, name)}": value for name, value in found.items() if isinstance(value, str)}
    if any(variables.get(name, "").startswith("http://") for name in _ENDPOINTS):
        options["aws_allow_http"] = "true"
    if special := variables.get("AWS_ENDPOINT_URL_S3"):
        options["aws_endpoint_url"] = special
    return {**options, "aws_conditional_put": "etag"}


def _check_url(name: str, value: str) -> None:
    """Raises :class:`UsageError` ``TT402`` if the address of a server has no scheme or no host. It may have a password, so it is
    not shown."""
    try:
        url = urlsplit(value)
        is_url = url.scheme in ("http", "https") and bool(url.hostname)
    except ValueError:
        is_url = False
    if value and not is_url:
        raise UsageError("TT402", f"{name} is no address of a server", fix="write http://HOST:PORT or https://HOST")


def _of_profile(variables: dict[str, str]) -> dict[str, Any]:
    """What a profile of AWS says, and the environment does not. Raises :class:`UsageError` ``TT402`` for an unknown profile, and
    for one with credentials that are made by another program, where boto3 is not installed."""
    if "AWS_ACCESS_KEY_ID" in variables or "AWS_WEB_IDENTITY_TOKEN_FILE" in variables:
        return {}
    named = variables.get("AWS_PROFILE") or variables.get("AWS_DEFAULT_PROFILE")
    name, home = named or "default", Path.home() / ".aws"
    keys = _section(Path(variables.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials")), name)
    about = _section(Path(variables.get("AWS_CONFIG_FILE", home / "config")), name if name == "default" else f"profile {name}")
    if not keys and not about:
        if named:
            raise UsageError("TT402", f"AWS_PROFILE is {named!r}, and there is no such profile", fix="see ~/.aws/config")
        return {}
    both = about | keys
    options: dict[str, Any] = {}
    if "AWS_REGION" not in variables and "AWS_DEFAULT_REGION" not in variables and "region" in both:
        options["region"] = both["region"]
    if "endpoint_url" in both and not any(one in variables for one in _ENDPOINTS):
        _check_url(f"endpoint_url of the profile {name!r}", both["endpoint_url"])
        options["endpoint"] = both["endpoint_url"]
        options["allow_http"] = both["endpoint_url"].startswith("http://")
    if "aws_access_key_id" in both:
        options["access_key_id"] = both["aws_access_key_id"]
        options["secret_access_key"] = both.get("aws_secret_access_key", "")
        if "aws_session_token" in both:
            options["session_token"] = both["aws_session_token"]
    elif named:
        options["credential_provider"] = _provider(named)
    return options


def _provider(profile: str) -> Any:
    """Credentials that somebody else makes: a sign-on, a role, another program."""
    if importlib.util.find_spec("boto3") is None:
        raise UsageError(
            "TT402", f"the profile {profile!r} has no keys, and boto3, which finds credentials for it, is not installed",
            fix="pip install boto3, or give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    import boto3  # type: ignore[import-untyped]
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider(boto3.session.Session(profile_name=profile))


def _section(file: Path, name: str) -> dict[str, str]:
    """A section of a file of AWS."""
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except configparser.Error:
        raise UsageError("TT402", f"{file} is no file of profiles", fix="see its lines") from None
    return dict(parser[name]) if parser.has_section(name) else {}

"""Which cluster the client speaks to: the one that the command line would.

Arguments come first, then ``MIND_ADDR``, ``MIND_TOKEN`` and ``MIND_CACERT``; a `mind dev` (``MIND_DEV``) or the current
context of ``~/.config/mind/config.yaml`` fills in the rest. A token that was found with one address is never sent to
another.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEFAULT = "http://127.0.0.1:8080"
API = "/v1/modules/scaimind"
CORES = "/v1/modules/scaicore"


@dataclass(frozen=True)
class Target:
    """How to reach a cluster."""

    addr: str = ""
    token: str = ""
    ca_cert: str = ""

    def filled(self, other: Target) -> Target:
        """Take what is missing from another."""
        return Target(self.addr or other.addr, self.token or other.token, self.ca_cert or other.ca_cert)

    def __repr__(self) -> str:  # tokens get into notebooks easily enough
        return f"Target(addr={self.addr!r}, ca_cert={self.ca_cert!r})"


def find(addr: str = "", token: str = "", ca_cert: str = "", context: str = "") -> Target:
    """Find the cluster; ValueError says what is wrong with what is configured."""
    found = Target(addr, token, ca_cert)
    env = os.environ.get
    if not context:
        pair = Target(env("MIND_ADDR", ""), env("MIND_TOKEN", ""), env("MIND_CACERT", ""))
        if addr and pair.addr and address(addr) != address(pair.addr):
            pair = Target(pair.addr, "", pair.ca_cert)  # the token is for the cluster at MIND_ADDR
        found = found.filled(pair)
    if found.addr:
        found = Target(address(found.addr), found.token, found.ca_cert)
    found = _remembered(found, context)
    token = found.token.strip()
    if any(not "!" <= c <= "~" for c in token):
        raise ValueError(
            "the token contains characters that no token has: give it exactly as it was printed, "
            "as an argument or in MIND_TOKEN"
        )
    return Target(address(found.addr or DEFAULT), token, found.ca_cert)


def _remembered(found: Target, context: str) -> Target:
    dev = os.environ.get("MIND_DEV", "")
    if context:
        known = _contexts()[1].get(context)
        if known is None:
            raise ValueError(f"there is no context {context!r}: `mind context` lists the existing ones")
        if found.addr and found.addr != address(known.addr):
            raise ValueError(
                f"the address is not that of context {context!r}, whose token must not go to another cluster: "
                "give the context or the address"
            )
        return found.filled(known)
    if dev:
        try:
            info = json.loads(Path(dev, "dev.json").read_text())
        except OSError as e:
            if found.addr:
                return found
            raise ValueError(
                f"MIND_DEV is set, but no cluster runs there: start one with `mind dev --data-dir {dev}` ({e})"
            ) from None
        url = address(info["gateway"]["url"])
        return found.filled(Target(url, info["token"])) if found.addr in ("", url) else found
    if found.addr and found.token:
        return found
    current, contexts = _contexts()
    known = contexts.get(current)
    if known is None:
        if current and not found.addr:
            raise ValueError(
                f"the current context {current!r} does not exist: `mind context` lists the existing ones, "
                "`mind context NAME` selects one"
            )
        return found
    return found.filled(known) if not found.addr or found.addr == address(known.addr) else found


def _contexts() -> tuple[str, dict[str, Target]]:
    file = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mind" / "config.yaml"
    try:
        text = file.read_text()
    except FileNotFoundError:
        return "", {}
    import yaml

    try:
        config: Any = yaml.safe_load(text)
        contexts: dict[str, Target] = {}
        for name, c in (config["contexts"] or {}).items():
            contexts[name] = Target(c.get("addr") or "", c.get("token") or "", c.get("ca_cert") or "")
        return str(config.get("current") or ""), contexts
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ValueError(
            f"{file} is not valid: {e}: repair it, or remove it and create it again with `mind context`"
        ) from None


def address(text: str) -> str:
    """Normalize the address of a gateway as people write it: with or without a scheme and the path of the API."""
    plain = text.strip()
    if "://" not in plain:
        plain = "http://" + plain
    parts = urlsplit(plain)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{text!r} is not an address such as {DEFAULT}")
    return plain.rstrip("/").removesuffix(API).rstrip("/")

"""Whether the hub is in reach. Its library asks again for most of a minute, for each file."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterable

# For how long the hub may take to answer.
_PATIENCE = 5.0


def settle(names: Iterable[str]) -> None:
    """Has the library take what is cached, and ask no further, if a name is one of a hub that is out of reach."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or not any(is_name(name) for name in names):
        return
    why = _out_of_reach(constants.ENDPOINT)
    if why:
        constants.HF_HUB_OFFLINE = True
        # For libraries that are imported later, and read it then.
        os.environ["HF_HUB_OFFLINE"] = "1"
        _away[constants.ENDPOINT] = why


def away() -> str:
    """Says that the hub was found out of reach; empty: it was not."""
    return "; ".join(
        f"the hub {endpoint} is out of reach of this node ({why}), and it is not in the cache of the node: "
        "check HF_ENDPOINT and the network, or give a path that every node has"
        for endpoint, why in _away.items()
    )


_away: dict[str, str] = {}


def is_name(model: str) -> bool:
    """Whether a model is one of the hub's, and no path."""
    return bool(model) and not model.startswith(("/", ".", "~")) and not os.path.exists(model)


def _out_of_reach(endpoint: str) -> str:
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_PATIENCE):
            return ""
    except urllib.error.HTTPError:
        return ""  # it answers
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__

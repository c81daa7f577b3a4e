"""The Python environment of a job: a variable of it, from which the agents make its ``PATH``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def within(venv: bool | str | os.PathLike[str], request: dict[str, Any]) -> dict[str, Any]:
    """Return a request for a job in a Python environment: that of this process, or the one in a directory."""
    if venv is False:
        return request
    prefix = Path(os.path.abspath(sys.prefix if venv is True else venv))
    conda = (prefix / "conda-meta").is_dir()
    if venv is True and not conda and sys.prefix == sys.base_prefix:
        raise ValueError(f"venv=True: {sys.executable} is in no virtual environment: name one, as in venv='.venv'")
    section = "training_config" if "training_config" in request else "command_config"
    config = request.get(section) or {}
    environment = {"CONDA_PREFIX" if conda else "VIRTUAL_ENV": str(prefix), **(config.get("environment") or {})}
    return {**request, section: {**config, "environment": environment}}

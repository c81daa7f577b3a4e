"""Python for Mind, the control plane for GPU training clusters: a client, and what a training script calls.

``mindcoordinator.training`` needs the standard library alone, so nothing else is imported before it is used.
"""

from ._version import __version__

__all__ = ["__version__"]

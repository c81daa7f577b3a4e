"""The switch ``MIND_AUTO``: trainings that were not written for Mind report to it.

Python reads ``mindcoordinator-auto.pth`` at its start, which imports this module in jobs that have the variable. It
waits for transformers and Lightning to be imported. It is outside of the package and imports next to nothing, because
every Python of the job loads it.
"""

import sys

# The module that defines a trainer, and the one that knows what to do with it.
_PATCHES = {
    "transformers.trainer": "mindcoordinator.training._auto_huggingface",
    "lightning.pytorch.trainer.trainer": "mindcoordinator.training._auto_lightning",
}


def complain(what: str, why: object) -> None:
    """Say in one line what does not work; the script goes on without it."""
    line = " ".join(str(why).split())[:300]
    print(f"mindcoordinator: MIND_AUTO {what}: {type(why).__name__}: {line}", file=sys.stderr)


class _Watch:
    """Sees the import of a module that defines a trainer, and patches it when its code has run."""

    _busy = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        # The runner of Mind brings callbacks of its own.
        if name not in _PATCHES or self._busy or "mind_runner" in sys.modules:
            return None
        self._busy = True
        try:
            from importlib.util import find_spec

            spec = find_spec(name)
            if spec is not None and spec.loader is not None:
                _patch_after(spec.loader, name)
            return spec
        except Exception as e:
            complain(f"does not reach {name}", e)
            return None
        finally:
            self._busy = False


def _patch_after(loader: object, name: str) -> None:
    run = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: object) -> None:
        run(module)
        try:
            from importlib import import_module

            import_module(_PATCHES[name]).patch(module)
        except Exception as e:
            complain(f"does not reach {name}", e)

    loader.exec_module = exec_module  # type: ignore[attr-defined]


sys.meta_path.insert(0, _Watch())  # type: ignore[arg-type]

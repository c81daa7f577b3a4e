"""`python -m mind_runner COMMAND`: each command is a module with `add_arguments` and `run`, imported when asked for."""

from __future__ import annotations

import argparse
import importlib
import sys

COMMANDS = {
    "train": ("mind_runner.train", "train a model as a request says"),
    "evaluate": ("mind_runner.evaluate", "score a model as a request says"),
    "doctor": ("mind_runner.doctor", "say what this node can train"),
    "names": ("mind_runner.names", "list the hyperparameters of each training type"),
}


def main(argv: list[str]) -> int:
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mind_runner", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (module, what) in COMMANDS.items():
        command = commands.add_parser(name, help=what)
        if argv[:1] == [name]:
            importlib.import_module(module).add_arguments(command)
    args = parser.parse_args(argv)
    code: int = importlib.import_module(COMMANDS[args.command][0]).run(args)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

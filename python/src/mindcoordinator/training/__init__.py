"""What a training script calls to report to Mind, and to stop and continue as Mind asks it to.

    from mindcoordinator import training

    start = load(training.resume_path()) if training.resume_path() else 0
    for step in range(start + 1, steps + 1):
        loss = train_one_step()
        training.report(step, total_steps=steps, loss=loss)
        if step % 100 == 0 or training.should_stop():
            with training.checkpoint_at(step, metrics={"loss": loss}) as path:
                save(path)
        if training.should_stop():
            sys.exit(training.STOPPED)

It needs nothing but the standard library. Outside of Mind the reports do nothing, so that a script runs unchanged on a
laptop.
``mindcoordinator.training.huggingface`` and ``.lightning`` have callbacks that do all of it.
"""

from ._directories import checkpoint_dir, checkpoints_of, output_dir, resume_path, sync_tree
from ._gate import Answer, gate_of
from ._reporter import Reporter
from ._stop import STOPPED, should_stop

_reporter = Reporter()

report = _reporter.report
progress = _reporter.progress
phase = _reporter.phase
checkpoint = _reporter.checkpoint
error = _reporter.error
evaluation_result = _reporter.evaluation_result
checkpoint_at = checkpoints_of(_reporter)
gate = gate_of(_reporter.event)

__all__ = [
    "STOPPED",
    "Answer",
    "Reporter",
    "checkpoint",
    "checkpoint_at",
    "checkpoint_dir",
    "error",
    "evaluation_result",
    "gate",
    "output_dir",
    "phase",
    "progress",
    "report",
    "resume_path",
    "should_stop",
    "sync_tree",
]

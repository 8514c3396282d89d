"""What makes a checkpoint whole: our own state, no copy of the reference, the best marked, the old ones pruned."""

from __future__ import annotations

import shutil
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from arcslim.config import RunSection
from arcslim.policy.adapters import REFERENCE
from arcslim.recipes.sink import RunStore, Sink
from arcslim.recipes.state import RunState

RUN_CARD = """\
# A run of arcslim

- `final/`: the weights, of the best checkpoint where one was chosen; `arcslim grpo --model` and `arcslim sft --model`
  take this folder.
- `resolved.toml`: every setting, a preset that reruns the run; `environment.json`: the command, versions, hardware.
- `metrics.jsonl`, `events.jsonl`, and of runs that roll out `samples.jsonl` and `tasks.jsonl`: figures, what happened,
  rollouts, the tasks.
- `checkpoint-N/`: go on with `--run-dir` (this folder) and `--resume auto`; `best` names the best one.
"""


class SaveState(TrainerCallback):
    """Finishes a checkpoint: our own state, no copy of the reference, the best marked, the old ones pruned."""

    def __init__(self, section: RunSection, run: RunState, sink: Sink, store: RunStore, *, saved: int = 0) -> None:
        """``saved``: the step of the checkpoint that the run is resumed from."""
        self._section, self._run, self._sink, self._store = section, run, sink, store
        self._saved = saved

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.finish(state.global_step)

    def finish(self, step: int) -> None:
        """Make the checkpoint of ``step``, which the trainer has written, whole, and say so."""
        checkpoint = self._store.path / f"checkpoint-{step}"
        # Where adapters lie in folders of their own, transformers resumes those and leaves the trained one as it was.
        # The reference is what the run started from: it is made again from there.
        shutil.rmtree(checkpoint / REFERENCE, ignore_errors=True)
        self.write_state(step)
        self._store.write_text("README.md", RUN_CARD)  # over TRL's, which names no model and a recipe not used
        self._sink.event(step, "checkpoint", checkpoint.name)
        self._saved = step
        self._store.prune(self._section.save_total_limit, self._run.best_step)

    def write_state(self, step: int) -> None:
        """Write what the run knows by now into the checkpoint of ``step``."""
        self._run.save(self._store.path / f"checkpoint-{step}")
        if self._run.best_step == step:
            self._store.mark_best(step)

    def keep(self, trainer: Any) -> None:
        """Save what was learned when an error or a stop ended the training between two steps, unless it is saved."""
        if trainer.state.global_step > self._saved:
            trainer._save_checkpoint(trainer.model, trial=None)  # transformers has no public way
            self.finish(trainer.state.global_step)

"""The HER recipe: sample programs for one target, take what they drew for what was asked, learn, again; read top down.

Source of the method: the notes in ``docs/her.md``. An epoch draws programs (``samplers``), runs them, relabels each
with its own image (``hindsight.py``), trains on them once (``her_learner.py``), and goes on with the same weights.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcslim.config import Config, GenerationSection, HerSection, LoraSection
from arcslim.errors import InputError
from arcslim.learning.priorities import draw_by_priority, lap_priorities
from arcslim.policy.generate import generate
from arcslim.policy.load import Policy, load_policy, load_trained, save_adapter
from arcslim.prompts.nouns import Completion
from arcslim.recipes.her_base import notes_on_base, notes_on_room, refuse_other_question
from arcslim.recipes.her_learner import Learned, Learner
from arcslim.recipes.her_prompt import DrawingPrompts
from arcslim.recipes.her_records import checkpoint, figures, record, task_row
from arcslim.recipes.her_state import HerState
from arcslim.recipes.hindsight import LookedBack, Pair, look_back
from arcslim.recipes.peaks import memory_peaks
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.tasks.drawing import Image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.targets import Target, target

SOLVED = "solved"
KNOBS = {"r": "her.lora_r"} | {
    name: f"her.{name}" for name in ("lora_alpha", "target_modules", "use_rslora", "use_dora")
}  # where the adapter's fields come from


@dataclass(frozen=True)
class HerOutcome:
    """How a run ended. ``program``: the source of the best drawing, ``accuracy`` its share of right cells.

    ``stopped``: why it ended, ``solved`` where it did. ``solved_at``: programs drawn by the end of the epoch that did.
    """

    epochs: int
    generations: int
    accuracy: float
    program: str | None
    solved_at: int | None
    stopped: str


def run(
    config: Config, sink: Sink, store: RunStore, stop: StopSignal, *, cache_dir: Path, resume_from: Path | None = None
) -> HerOutcome:
    """Learn to draw ``her.target``.

    Raises:
        InputError: a target or model that cannot be used.
        Stopped: a stop was asked for; everything is saved.
    """
    her, wanted = config.her, target_of(config)
    for note in (*wanted.notes, *notes_on_base(her.model)):
        sink.event(0, "warning", note)
    refuse_other_question(her.model, her.prompt, "her.prompt")
    adapter, seed = adapter_of(her, config.lora), config.run.seed
    policy = load_policy(config.model_for("her"), adapter, seed=seed, cache_dir=cache_dir, knobs=KNOBS)
    for note in policy.notes:
        sink.event(0, "start", note)
    prompts = DrawingPrompts(policy.tokenizer, her.prompt)
    question = question_of(prompts, wanted, config)
    for note in notes_on_room(prompts, wanted, her):
        sink.event(0, "warning", note)
    learner = Learner(policy, prompts, wanted.blank, config)
    state = HerState()
    if resume_from is not None:
        load_trained(policy.model, resume_from)
        learner.load(resume_from)
        state = HerState.load(resume_from)
    sink.task_rows([task_row(wanted, prompts)])
    sink.event(state.epoch, "start", f"target {wanted.name}, {wanted.shape[0]} x {wanted.shape[1]} cells")
    stop.check()

    for note in store.rewind():
        sink.event(state.epoch, "restart", note)
    ended, began, before = why_it_ends(state, config), time.monotonic(), state.seconds
    while ended is None:
        epoch, at = state.epoch + 1, time.monotonic()
        completions = sample(policy, question, her, seed=seed_of(config, epoch), told=_teller(sink, epoch, her))
        rolled = time.monotonic()
        looked = look_back(completions, wanted, state.seen, her, random.Random(f"{config.run.seed}/{epoch}"))
        reached = state.take(looked, wanted.image)
        learned = None
        if not her.train:
            state.saw(looked)
        elif state.solved_at is None:
            learned = learn(learner, looked, wanted.blank, state, config)
        state.seconds = before + time.monotonic() - began
        seconds = {"seconds/rollout": rolled - at, "seconds/update": time.monotonic() - rolled}
        record(sink, looked, wanted, epoch, figures(state, looked, learned, reached) | seconds | memory_peaks())
        sink.progress(epoch, epochs_of(her))
        ended, stopped = why_it_ends(state, config), stop.requested
        if ended is not None or stopped or epoch % her.save_epochs == 0:
            checkpoint(policy, learner, state, sink, store, keep=config.run.save_total_limit)
        if ended is None and stopped:
            sink.event(epoch, "stopped", "on request; everything is saved")
            stop.check()

    save_adapter(policy.model, policy.tokenizer, store.path / "final")
    if state.best_program is not None:
        store.write_text("program.txt", state.best_program)
    sink.event(state.epoch, "end", ended)
    return HerOutcome(state.epoch, state.generations, state.best_accuracy, state.best_program, state.solved_at, ended)


def target_of(config: Config) -> Target:
    """What is to be drawn. Raises InputError where nothing is to be drawn, or it cannot be read."""
    wanted = target(config.her.target)
    if not wanted.image.any():
        raise InputError(
            f"target {wanted.name!r} is blank: every cell is 0, as before the first call", "choose another"
        )
    return wanted


def question_of(prompts: DrawingPrompts, wanted: Target, config: Config) -> list[int]:
    """Token ids of the question. Raises InputError where it leaves a program too little room in the context."""
    ids, room = prompts.ids(wanted.blank, wanted.image), config.her.max_completion_length
    context = config.model.max_seq_length
    if len(ids) + room > context:
        raise InputError(
            f"the question has {len(ids)} tokens and a program may have {room} (her.max_completion_length): together "
            f"more than model.max_seq_length, {context}",
            f"raise model.max_seq_length to {len(ids) + room}, or lower her.max_completion_length",
        )
    return ids


def epochs_of(her: HerSection) -> int:
    """Epochs at most, by both limits."""
    return min(her.max_epochs, her.max_generations // her.generations_an_epoch)


def adapter_of(her: HerSection, lora: LoraSection) -> LoraSection:
    """The adapter's section with HER's own rank, alpha and kind."""
    own = {name: getattr(her, name) for name in ("target_modules", "lora_alpha", "use_rslora", "use_dora")}
    return lora.model_copy(update={"r": her.lora_r, **own})


def seed_of(config: Config, epoch: int) -> int:
    """Of an epoch's sampling: the same when a run is resumed."""
    return (config.run.seed * 1_000_003 + epoch * 7919) % 2**31


def sample(
    policy: Policy, question: list[int], her: HerSection, *, seed: int, told: Callable[[int], None] | None = None
) -> list[Completion]:
    """An epoch's programs, those of the first sampler first; in evaluation mode, so without dropout.

    All samplers' rows go through the model together: a card decodes eight rows no faster than a hundred. ``told`` is
    called with how many are drawn; it may raise, to stop.
    """
    (drawn,) = generate(
        policy,
        [question],
        GenerationSection(max_completion_length=her.max_completion_length, top_p=her.top_p),
        samples=her.generations_an_epoch,
        batch=her.rollout_batch,
        seed=seed,
        on_batch=None if told is None else lambda done, _: told(done),
        temperatures=[sampler.temperature for sampler in her.draws for _ in range(sampler.number)],
    )
    return drawn


def learn(learner: Learner, looked: LookedBack, blank: Image, state: HerState, config: Config) -> Learned | None:
    """Train on an epoch's pairs and on what is replayed; None where there is nothing."""
    her = config.her
    replayed = replay(state, blank, her, np.random.default_rng(seed_of(config, state.epoch)))
    pairs = (*replayed, *looked.pairs)
    if not pairs:
        return None
    learner.seed(seed_of(config, state.epoch))
    learned = learner.epoch(pairs)
    state.trained(pairs, learned.errors, learned.applied, keep=her.replay != "none")
    return learned


def replay(state: HerState, blank: Image, her: HerSection, rng: np.random.Generator) -> list[Pair]:
    """Earlier programs to train on again, before the new ones; evenly, or those with the larger errors rather (LAP)."""
    if her.replay == "none" or not state.errors:
        return []
    sources = list(state.errors)
    errors = [state.errors[source] for source in sources]
    weights = lap_priorities(errors) if her.replay == "lap" else np.ones(len(errors))
    chosen = [parse_program(sources[index]) for index in draw_by_priority(weights, her.replay_rows, rng)]
    return [Pair.of(program, blank) for program in chosen]


def why_it_ends(state: HerState, config: Config) -> str | None:
    """Why the run is over, or None."""
    her, hours = config.her, config.run.max_hours
    if state.solved_at is not None:
        return SOLVED
    if state.generations + her.generations_an_epoch > her.max_generations:
        return f"her.max_generations = {her.max_generations}: {state.generations} programs were drawn"
    if state.epoch >= her.max_epochs:
        return f"her.max_epochs = {her.max_epochs}"
    if her.patience and state.dry >= her.patience:
        return f"her.patience = {her.patience}: nothing new in as many epochs"
    if hours is not None and state.seconds + state.seconds / max(state.epoch, 1) > hours * 3600:
        return f"run.max_hours = {hours:g} would be passed"
    return None


def _teller(sink: Sink, epoch: int, her: HerSection) -> Callable[[int], None]:
    def told(done: int) -> None:
        sink.progress(epoch - 1, epochs_of(her), phase="rollout", done=done, of=her.generations_an_epoch)

    return told

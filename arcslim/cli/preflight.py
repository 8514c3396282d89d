"""Before anything loads: does the run fit the GPU that is there? After its first step: did the plan hold?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from arcslim.cards import GIB, GpuCard, cpu_card
from arcslim.cards_ram import host_ram
from arcslim.cli.plan import gib, gpu_of
from arcslim.cli.plan import plan_for as plan_for
from arcslim.config import Config
from arcslim.errors import DoesNotFitError, InputError, ModelError
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.memory.host import host_mend
from arcslim.memory.plan import ERROR_BAND, TIGHT, Plan, make_plan, refuse_what_cannot_fit
from arcslim.presets import Resolved
from arcslim.runs.gpus import card_of, gpu_list, mebibytes, used_gpu

PLAN = "plan.json"
WORST = "with every row as long as its limits allow"


@dataclass(frozen=True)
class Here:
    """The GPU of this machine: None where there is none that is known, and ``why``. ``used``: bytes others hold."""

    card: GpuCard | None
    why: str | None = None
    used: float = 0.0
    is_there: bool = False


@dataclass(frozen=True)
class Preflight:
    """The plan of a run on this machine, None where there is none, and what is doubtful about it, in words."""

    plan: Plan | None = None
    notes: tuple[str, ...] = ()


def gpu_here() -> Here:
    """The GPU that a run would use, by nvidia-smi."""
    cards, reason = gpu_list()
    if cards is None:
        return Here(None, reason)
    gpu, reason = used_gpu(cards)
    card = None if gpu is None else card_of(gpu)
    if gpu is None or card is None:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
        return Here(None, reason or "nvidia-smi does not say how much memory the card has", is_there=not hidden)
    return Here(card, used=(mebibytes(gpu["memory.used"]) or 0.0) * 1024**2, is_there=True)


def look_before(config: Config, recipe: str, *, force: bool = False) -> Preflight:
    """Plan the run on the GPU that is there; without one, in this machine's RAM, and then nothing is refused.

    Raises:
        DoesNotFitError: it cannot fit the GPU, what others leave of it, or the host's RAM, and ``force`` is not given.
    """
    here = gpu_here()
    if here.is_there and here.card is None:
        return Preflight(notes=(f"no plan of the memory: {here.why}",))
    try:
        plan = plan_for(config, recipe, here.card or cpu_card())
    except ModelError as error:  # whether it can be loaded is not for the plan to say
        return Preflight(notes=(f"no plan of the memory: {error.message}",))
    if here.card is None:
        note = f"the plan needs {gib(plan.peak)} GiB of RAM, this machine has {gib(plan.usable)}"
        return Preflight(plan, () if plan.fits else (note,))
    return Preflight(plan, tuple(_doubts(plan, here, force)))


def _doubts(plan: Plan, here: Here, force: bool) -> Iterable[str]:
    """What is doubtful. Raises DoesNotFitError for the first that makes the run impossible, unless ``force``."""
    refusals = [error for look in (_too_large, _held_by_others, _too_little_ram) if (error := look(plan, here))]
    if refusals and not force:
        first = refusals[0]
        raise DoesNotFitError(first.message, f"{first.hint}; to start all the same: --force")
    yield from (f"{error.message}; started all the same" for error in refusals)
    if not refusals and plan.verdict == TIGHT:
        yield (
            f"by the plan {gib(plan.peak)} of {gib(plan.usable)} GiB are needed, {WORST}: "
            f"at the upper end of its error band (+{ERROR_BAND:.0%}) that is too much"
        )
    ram = host_ram()
    if ram.free < plan.host_peak <= ram.total:
        yield (
            f"of {gib(ram.total)} GiB of RAM {gib(ram.free)} are free now, and the plan needs {gib(plan.host_peak)}: "
            "what else runs here may have to end"
        )


def _too_large(plan: Plan, here: Here) -> DoesNotFitError | None:
    """For the card, were it empty."""
    try:
        refuse_what_cannot_fit(plan)
    except DoesNotFitError as error:
        return DoesNotFitError(f"{error.message} ({WORST})", error.hint)
    return None


def _held_by_others(plan: Plan, here: Here) -> DoesNotFitError | None:
    """What other programs hold of the card makes it a smaller one. The plan for that one says what would fit."""
    left = plan.usable - here.used
    if not plan.fits or plan.peak <= left:
        return None
    gpu = replace(plan.request.gpu, usable_gib=max(left, 0.0) / GIB)
    try:
        refuse_what_cannot_fit(make_plan(replace(plan.request, gpu=gpu)))
    except DoesNotFitError as error:
        held = f"other programs hold {gib(here.used)} GiB of the GPU"
        message = f"{held}: the plan needs {gib(plan.peak)} ({WORST}), {gib(max(left, 0.0))} are left"
        return DoesNotFitError(message, f"end them (`nvidia-smi` names them), or: {error.hint}")
    return None


def _too_little_ram(plan: Plan, here: Here) -> DoesNotFitError | None:
    """Host RAM beside the GPU: a run that has not enough is killed, after its download."""
    ram = host_ram()
    if plan.host_peak <= ram.total:
        return None
    whose = "this process may have (a container's or a service's limit)" if ram.limited else "this machine has"
    message = f"the plan needs {gib(plan.host_peak)} GiB of host RAM ({WORST}), {whose} {gib(ram.total)}"
    mend = host_mend(plan.request, ram.total)
    hint = f"{mend.what} would fit: {' '.join(mend.settings)}" if mend else "a machine with more RAM is needed"
    return DoesNotFitError(message, hint)


def plan_lines(resolved: Resolved, recipe: str) -> list[str]:
    """The plan for the card that the preset was made for, in lines for a dry run."""
    try:
        plan = plan_for(resolved.config, recipe, gpu_of(None, resolved.asked, resolved.config, recipe))
    except InputError as error:
        return [f"not planned: {error.message}", "`arcslim plan --gpu …` does it for a card that you name"]
    on_cpu = plan.request.gpu.is_cpu
    where = "this machine, without a GPU" if on_cpu else plan.request.gpu.name
    peaks = [(phase.name, phase.host_peak if on_cpu else phase.gpu_peak) for phase in plan.phases]
    lines = [
        f"on {where}: {plan.verdict}, {gib(plan.peak)} of {gib(plan.usable)} GiB"
        + (f", {gib(plan.reserve)} of them reserve" if plan.reserve else ""),
        f"{', '.join(f'{name} {gib(peak)}' for name, peak in peaks)} GiB, {WORST}",
    ]
    if not on_cpu:
        lines.append(f"{gib(plan.host_peak)} GiB of host RAM")
    if plan.mends:
        lines.append(f"{plan.mends[0].what} would fit: {' '.join(plan.mends[0].settings)}")
    if resolved.asked is not None:
        lines.append(f"item by item: arcslim plan --preset {resolved.asked} --recipe {recipe}")
    return lines


class PlanCheck:
    """A ``Sink`` that says after the first step of this process what was planned and what was measured."""

    def __init__(self, plan: Plan, tell: Callable[[int, str, str], None]) -> None:
        self._plan, self._tell, self._told = plan, tell, False

    def metrics(self, step: int, kind: Any, values: Mapping[str, Any]) -> None:
        if kind != "train" or self._told:
            return
        self._told = True
        words = plan_against_measured(self._plan, values)
        if words is not None:
            self._tell(step, *words)

    def samples(self, rows: Iterable[Any]) -> None: ...
    def task_rows(self, rows: Iterable[Any]) -> None: ...
    def event(self, step: int, event: Any, detail: str) -> None: ...
    def progress(self, step: int, total: int, **facts: Any) -> None: ...


def plan_against_measured(plan: Plan, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The kind of event and its words; None where nothing was measured that the plan speaks of.

    On a GPU PyTorch's allocator was measured: it counts neither the CUDA context nor what the plan keeps in reserve.
    """
    gpu, host = values.get("memory/gpu_peak_bytes"), values.get("memory/host_peak_bytes")
    if plan.request.gpu.is_cpu:
        if gpu is not None or host is None:
            return None
        planned, measured, where = plan.host_peak, float(host), "in RAM"
    else:
        if gpu is None:
            return None
        planned = max(phase.gpu_peak for phase in plan.phases) - CUDA_CONTEXT
        measured, where = float(gpu), "on the GPU (without the CUDA context)"
    words = (
        f"plan against measured, {where}: {gib(planned)} GiB planned {WORST}, {gib(measured)} measured so far "
        f"({measured / planned:.0%})"
    )
    return ("warning" if measured > planned * (1 + ERROR_BAND) else "start"), words

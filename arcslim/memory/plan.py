"""The plan: phases, verdict, what decoding can reach, how far each knob could go, what to change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from arcslim.errors import DoesNotFitError
from arcslim.memory import formulas as f
from arcslim.memory.decode import Decoding, decoding
from arcslim.memory.knobs import context_setting
from arcslim.memory.limits import Limit, limits
from arcslim.memory.mends import Mend, mends
from arcslim.memory.phases import Item, Phase, fits, peak_of, phases_of, reserve_of, vllm_starts
from arcslim.memory.setup import Request

ERROR_BAND = 0.15
"""How far a peak may be off, either way. In docs/memory.md's back-tests every prediction of what Unsloth or a trainer
with the same kernels and checkpoints holds in an update lies within; nothing public tests the rollout."""

FITS, TIGHT, NO = "fits", "tight", "does not fit"
VLLM_TOO_SMALL = (
    "vLLM would not start: its share of the card, {0.vllm_share:g}, cannot hold the weights and a row's cache"
)


@dataclass(frozen=True)
class Plan:
    """What a setup takes, and what follows from it. Bytes; ``mends`` is empty where nothing needs mending."""

    request: Request
    phases: tuple[Phase, ...]
    reserve: int
    decoding: Decoding | None = None
    limits: tuple[Limit, ...] = ()
    mends: tuple[Mend, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> int:
        return self.request.gpu.usable_bytes

    @property
    def peak(self) -> float:
        """The largest phase, with the reserve: on the GPU, or in RAM where there is none."""
        return peak_of(self.request, self.phases)

    @property
    def host_peak(self) -> float:
        return max(phase.host_peak for phase in self.phases)

    @property
    def fits(self) -> bool:
        return self.peak <= self.usable and vllm_starts(self.request)

    @property
    def verdict(self) -> str:
        """``fits``: at the upper end of the error band too. ``tight``: by the estimate, but not at that end."""
        if not self.fits:
            return NO
        return FITS if self.band[1] <= self.usable else TIGHT

    @property
    def band(self) -> tuple[float, float]:
        """Both ends of the error band, without the reserve: the upper one is higher where it is not known what of the
        4-bit weights stays in 16 bits."""
        best = self.peak - self.reserve
        return best * (1 - ERROR_BAND), best * (1 + ERROR_BAND) + self.request.may_be_more

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)

    def to_dict(self) -> dict[str, Any]:
        """What ``--json`` prints and ``plan.json`` holds. Bytes are whole numbers."""
        card, gpu = self.request.card, self.request.gpu
        return {
            "verdict": self.verdict,
            "fits": self.fits,
            "peak_bytes": int(self.peak),
            "reserve_bytes": self.reserve,
            "usable_bytes": self.usable,
            "host_peak_bytes": int(self.host_peak),
            "error_band": ERROR_BAND,
            "band_bytes": [int(end) for end in self.band],
            "model": {"name": card.name, "parameters": card.parameters, "source": card.source},
            "gpu": {key: value for key, value in asdict(gpu).items() if key != "aliases"},
            "setup": asdict(self.request.setup),
            "packing": asdict(self.request.packing) if self.request.setup.four_bit else None,
            "phases": {phase.name: _phase_dict(phase) for phase in self.phases},
            "decoding": asdict(self.decoding) if self.decoding else None,
            "limits": [asdict(limit) for limit in self.limits],
            "mends": [asdict(mend) for mend in self.mends],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


def _phase_dict(phase: Phase) -> Mapping[str, Any]:
    def rows(items: tuple[Item, ...]) -> list[dict[str, Any]]:
        return [asdict(item) | {"bytes": int(item.bytes)} for item in items]

    return {
        "gpu_peak_bytes": int(phase.gpu_peak),
        "host_peak_bytes": int(phase.host_peak),
        "gpu": rows(phase.gpu),
        "host": rows(phase.host),
    }


def make_plan(request: Request) -> Plan:
    """The whole plan. Raises nothing: what does not fit is what it says."""
    return Plan(
        request,
        phases_of(request),
        reserve_of(request),
        decoding=decoding(request),
        limits=limits(request),
        mends=() if fits(request) else mends(request),
        notes=_notes(request),
    )


def refuse_what_cannot_fit(plan: Plan) -> None:
    """Raises DoesNotFitError (exit code 3), with the cheapest change, where a plan does not fit."""
    if plan.fits:
        return
    mend = plan.mends[0] if plan.mends else None
    hint = f"{mend.what} would fit: {' '.join(mend.settings)}" if mend else "no single setting makes it fit"
    needs = f"the plan needs {plan.peak / f.GIB:.1f} GiB, {plan.request.gpu.name} has {plan.usable / f.GIB:.1f}"
    raise DoesNotFitError(needs if vllm_starts(plan.request) else VLLM_TOO_SMALL.format(plan.request.setup), hint)


def _notes(request: Request) -> tuple[str, ...]:
    setup, card = request.setup, request.card
    notes = ["no figure was measured on a GPU: see docs/memory.md for what was compared with measurements"]
    if request.kept:
        notes.append(_packing_note(request))
    if "paged" in setup.optim and not request.gpu.is_cpu:
        notes.append("the optimizer is paged: when the card is short its states move to host RAM")
    length = max(setup.row, setup.prompt + setup.completion)
    if length > card.max_position_embeddings:
        notes.append(
            f"{length:,} tokens are more than the {card.max_position_embeddings:,} that {card.name} was made for"
        )
    for more in context_setting(request.setup, request.setup.row):
        notes.append(f"rows of {request.setup.row:,} tokens want {more}: it is {request.setup.context:,}")
    return tuple(notes)


def _packing_note(request: Request) -> str:
    packing, more = request.packing, request.kept * (2 - f.nf4(1))
    share = request.kept / request.card.linear_parameters
    what = f"Unsloth loads {packing.copy}, which keeps" if packing.copy else "these weights keep"
    note = (
        f"in 4 bits {what} {share:.0%} of the linear maps in 16 bits, {packing.why}: {more / f.GIB:.1f} GiB more than "
        "NF4 throughout"
    )
    if request.may_be_more:
        note += f"; it may be {request.may_be_more / f.GIB:.1f} GiB more than that, which the error band holds"
    return note

"""Host RAM beside a GPU: what a plan takes of it, and what to change where that is too much."""

from __future__ import annotations

from arcslim.memory.changes import changed
from arcslim.memory.knobs import batch_settings, put
from arcslim.memory.mends import TIME, Mend, smaller_batches
from arcslim.memory.phases import fits, phases_of
from arcslim.memory.setup import HER, Request


def host_peak(request: Request) -> float:
    return max(phase.host_peak for phase in phases_of(request))


def host_mend(request: Request, room: float) -> Mend | None:
    """The cheapest knob with which the plan fits ``room`` bytes of RAM, and the GPU still; None where none does.

    Offloaded checkpoints are what varies: of a smaller micro-batch they are fewer, on the GPU they take no RAM.
    """

    def both_fit(one: Request) -> bool:
        return fits(one) and host_peak(one) <= room

    setup = request.setup
    for rows in smaller_batches(setup):
        if both_fit(changed(request, micro_batch=rows)):
            cost = "more updates, each of fewer programs" if setup.recipe == HER else TIME
            what = f"micro-batch {rows} instead of {setup.micro_batch}"
            return Mend(what, cost, batch_settings(setup, rows))
    if setup.checkpointing == "unsloth" and both_fit(changed(request, checkpointing="true")):
        settings = (put("model.use_gradient_checkpointing", "true"),)
        return Mend("checkpoints kept on the GPU", "costs GPU memory only", settings)
    return None

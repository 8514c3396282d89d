"""Is this machine ready? The facts and checks behind `arcslim doctor`, and a run's ``environment.json``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arcslim.runs import doctor_machine as machine
from arcslim.runs import doctor_stack as stack
from arcslim.runs.check import Check
from arcslim.runs.doctor_machine import Room
from arcslim.runs.environment import environment


def quick_checks(run_dir: Path, room: Room | None = None) -> Iterator[Check]:
    """What takes no time: neither torch nor the network is asked."""
    room = room or Room()
    yield machine.check_python()
    yield machine.check_driver()
    gpu = machine.check_gpu()
    if gpu is not None:
        yield gpu
    yield stack.check_versions()
    yield stack.check_vllm()
    yield machine.check_disk("hub cache", machine.hub_cache(), room.weights, sure=room.sure, move="HF_HOME")
    yield machine.check_disk("run folder", run_dir, room.checkpoints, sure=room.sure, move="--run-dir")
    yield machine.check_shared()
    yield machine.check_tokens()


def all_checks(run_dir: Path, room: Room | None = None) -> Iterator[Check]:
    """Those, and what is tried for real: the stack's libraries, the compiler, the hub."""
    quick = list(quick_checks(run_dir, room))
    first = ("Python", "driver", "GPU")
    yield from (check for check in quick if check.name in first)
    found = stack.probe()
    yield stack.check_torch(found)
    yield stack.check_bitsandbytes(found)
    yield stack.check_xformers(found)
    yield stack.check_triton(found)
    yield machine.check_compiler(needed=stack.has_card(found))
    yield stack.check_flash(found)
    yield from (check for check in quick if check.name not in first)
    yield machine.check_hub()


def record(run_dir: Path, *, world_size: int, recipe: str | None, argv: Sequence[str] | None = None) -> dict[str, Any]:
    """``environment.json``: what a run ran on, with the quick checks of it."""
    shared = Path("/dev/shm")
    cache = machine.hub_cache()
    return environment(world_size=world_size, recipe=recipe, argv=argv) | {
        "torch_build": machine.torch_build(),
        "disk_free_bytes": {"hub_cache": machine.free_bytes(cache)[1], "run_folder": machine.free_bytes(run_dir)[1]},
        "shared_memory_bytes": shutil.disk_usage(shared).total if shared.is_dir() else None,
        "tokens_present": machine.tokens_present(),
        "versions_off": {name: {"installed": have, "pinned": pin} for name, (have, pin) in stack.off_pins().items()},
        "checks": [check.to_dict() for check in quick_checks(run_dir)],
    }

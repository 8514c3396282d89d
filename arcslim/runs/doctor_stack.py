"""Checks of the libraries: what the probe found, vLLM's fit, and versions against the constraints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from arcslim.runs.check import BROKEN, DOUBTFUL, OK, Check
from arcslim.runs.doctor_machine import torch_build
from arcslim.runs.environment import PACKAGES

PROBE_SECONDS = 300.0
CLOSE = 0.03  # relative error of a 4-bit layer in bf16, against its own weights unpacked
Probe = Mapping[str, Mapping[str, Any]]


def probe(seconds: float = PROBE_SECONDS) -> dict[str, dict[str, Any]]:
    """What torch, bitsandbytes, xformers, Triton and flash-attention can do here, tried in a process of its own.

    A part that ended the process, or took too long, says so as its ``error``; what comes after it is not there.
    """
    command = [sys.executable, "-m", "arcslim.policy.probe"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        output, _ = process.communicate(timeout=seconds)
        end = f"it ended the process (exit code {process.returncode})"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        end = f"no answer in {seconds:g} s"
    found: dict[str, dict[str, Any]] = {}
    for line in output.decode(errors="replace").splitlines():
        row = json.loads(line)
        found[row["part"]] = row.get("found", {"error": end})
    return found


def check_torch(found: Probe) -> Check:
    facts = found.get("torch", {})
    if "version" not in facts:
        return Check("torch", BROKEN, facts.get("error", "it was not reached"), install_line())
    said = f"{facts['version']}, CUDA {facts['cuda'] or 'none'}"
    if facts["available"]:
        return Check("torch", OK, f"{said}: sees {facts['name']}")
    if has_card(found):
        return Check(
            "torch", BROKEN, f"{said}: does not see the GPU: {facts.get('error', '')}", "see the line of the driver"
        )
    return Check("torch", OK, f"{said}: no GPU")


def has_card(found: Probe) -> bool:
    """Whether nvidia-smi lists a card that is not hidden."""
    from arcslim.runs.gpus import gpu_list, used_gpu

    if found.get("torch", {}).get("available"):
        return True
    cards, _ = gpu_list()
    return cards is not None and used_gpu(cards)[0] is not None


def check_bitsandbytes(found: Probe) -> Check:
    name, facts = "bitsandbytes", found.get("bitsandbytes", {})
    if "forward_error" not in facts:
        said = facts.get("error", "it was not reached")
        return Check(name, BROKEN, f"4-bit does not work: {said}", reinstall_line())
    said = f"{facts['version']} on {facts['device']}"
    errors = {key: facts[f"{key}_error"] for key in ("forward", "backward")}
    if not facts["native"] or (facts["device"] == "cuda" and not facts["built_with_cuda"]):
        return Check(name, BROKEN, f"{said}: its native library does not load", reinstall_line())
    wrong = [f"{key} is off by {error:.1%}" for key, error in errors.items() if not error < CLOSE]
    if wrong:
        return Check(name, BROKEN, f"{said}: 4-bit {', '.join(wrong)}", install_line())
    return Check(name, OK, f"{said}: 4 bits forward and backward are right")


def check_xformers(found: Probe) -> Check:
    name, facts = "xformers", found.get("xformers", {})
    if facts.get("installed") is False:
        return Check(name, DOUBTFUL, "not installed: PyTorch's attention is used", install_line())
    if "operators" not in facts:
        return Check(name, DOUBTFUL, facts.get("error", "it was not reached"), install_line())
    if not facts.get("attention_error", 0.0) < CLOSE:  # of a GPU alone; nan too
        said = f"{facts['version']}: its attention is off by {facts['attention_error']:.1%}"
        return Check(name, BROKEN, said, install_line())
    if facts["own_extension"]:
        return Check(name, OK, f"{facts['version']}: its own extension loads: {', '.join(facts['operators'])}")
    borrowed = [one for one in facts["operators"] if one.endswith("-pt")]
    said = f"{facts['version']}, built for torch {facts['built_for'] or '?'}: its own extension does not load"
    if not borrowed:
        return Check(name, DOUBTFUL, f"{said}, and PyTorch lends it no operator", install_line())
    return Check(name, OK, f"{said}; PyTorch's operators are used: {', '.join(borrowed)}")


def check_triton(found: Probe) -> Check:
    facts = found.get("triton", {})
    if facts.get("installed") is False:
        return Check(
            "Triton",
            BROKEN if has_card(found) else DOUBTFUL,
            "not installed: Unsloth's kernels need it",
            install_line(),
        )
    if "version" not in facts or facts.get("kernel") is False:
        said = facts.get("error", "a kernel adds wrongly" if "version" in facts else "it was not reached")
        return Check("Triton", BROKEN, said, "see the line of the C compiler; rm -r ~/.triton/cache")
    tried = "a kernel compiles and runs" if facts.get("kernel") else "no kernel was tried without a GPU"
    return Check("Triton", OK, f"{facts['version']}: {tried}")


def check_flash(found: Probe) -> Check:
    facts = found.get("flash_attn", {})
    if "version" in facts:
        return Check("flash-attention", OK, facts["version"])
    if facts.get("installed") is False:
        return Check("flash-attention", OK, "not installed, and not needed")
    said = facts.get("error", "it was not reached")
    return Check("flash-attention", DOUBTFUL, f"installed, but {said}", "pip uninstall flash-attn: it is not needed")


def installed(name: str) -> Version | None:
    try:
        return Version(Version(metadata.version(name)).public)
    except (metadata.PackageNotFoundError, InvalidVersion):
        return None


def check_vllm() -> Check:
    """vLLM wants one release of torch to the digit: another one ends in undefined symbols."""
    version = installed("vllm")
    if version is None:
        return Check("vLLM", OK, "not installed: rollouts go through Unsloth")
    wrong = []
    for text in metadata.requires("vllm") or []:
        need = Requirement(text)
        have = installed(need.name)
        inside = need.marker is None or need.marker.evaluate({"extra": ""})
        close = need.name in ("torch", "torchvision", "transformers", "xformers") and inside and have is not None
        if close and not need.specifier.contains(str(have), prereleases=True):
            wrong.append(f"{need.name}{need.specifier}, and {have} is installed")
    if wrong:
        mend = 'an environment of its own: pip install -c constraints-vllm.txt -e ".[vllm]"'
        return Check("vLLM", BROKEN, f"{version} wants {'; '.join(wrong)}", mend)
    return Check("vLLM", OK, f"{version}, fits torch {installed('torch')}")


def constraints_file() -> Path:
    """The pinned stack that is meant to be here, by vLLM and by torch's CUDA: inside the installed package, or at the
    root of a checkout."""
    package = Path(__file__).parent.parent
    folder = package / "_constraints"
    build = torch_build()
    older = build is not None and str(build["cuda"]).startswith("12.")
    vllm = installed("vllm") is not None
    name = "constraints-vllm.txt" if vllm else "constraints-cu128.txt" if older else "constraints.txt"
    return (folder if folder.is_dir() else package.parent) / name


def install_line() -> str:
    """How this stack, and no other, is installed: another file's torch may want another driver."""
    file = constraints_file().name
    return f'pip install -c {file} -e "{".[vllm]" if "vllm" in file else "."}"'


def reinstall_line() -> str:
    return f"pip install --force-reinstall --no-deps -c {constraints_file().name} bitsandbytes"


def pins(path: Path) -> dict[str, Version]:
    """Of each package the one version; none where the file did not come along with this copy of arcslim."""
    if not path.is_file():
        return {}
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower().replace("_", "-"): Version(version) for name, version in found}


def wanted_pins() -> dict[str, Version]:
    return pins(constraints_file())


def off_pins() -> dict[str, tuple[str, str]]:
    """Installed packages that are not as pinned: name to what is installed and what is pinned."""
    return {
        name: (str(have), str(pin))
        for name, pin in wanted_pins().items()
        if (have := installed(name)) is not None and have != Version(pin.public)
    }


def own_needs() -> list[Requirement] | None:
    """arcslim's bounds; None where it runs from a folder and was never installed."""
    try:
        texts = metadata.requires("arcslim") or []
    except metadata.PackageNotFoundError:
        return None
    needs = (Requirement(text) for text in texts)
    return [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]


def check_versions() -> Check:
    """Against arcslim's own bounds, which must hold, and against the set that was tried together."""
    needs, file = own_needs(), constraints_file().name
    beyond = []
    for need in needs or []:
        have = installed(need.name)
        if have is None:
            beyond.append(f"{need.name} is not installed")
        elif not need.specifier.contains(have, prereleases=True):
            beyond.append(f"{need.name} {have} (wanted: {need.specifier})")
    if beyond:
        return Check("versions", BROKEN, "; ".join(beyond), install_line())
    if not wanted_pins():
        return Check("versions", DOUBTFUL, f"there is no {file} to compare with", "take it from arcslim's repository")
    off = off_pins()
    core = {name.lower().replace("_", "-") for name in PACKAGES}
    said = [f"{name} {have} (pinned: {pin})" for name, (have, pin) in sorted(off.items()) if name in core]
    others = len(off) - len(said)
    if said:
        more = f" and {others} lesser ones" if others else ""
        return Check(
            "versions", DOUBTFUL, f"not the set that was tried together: {'; '.join(said)}{more}", install_line()
        )
    where = "" if needs is not None else "; arcslim is not installed, its bounds are not known"
    if not off:
        return Check("versions", OK, f"as in {file}{where}")
    named = ", ".join(f"{name} {have}" for name, (have, _) in sorted(off.items())[:4])
    return Check("versions", OK, f"what matters is as in {file}; lesser ones differ: {others} ({named}){where}")

"""W&B, trackio and TensorBoard, before the trainer starts them: never a login prompt, nor a failure that comes late."""

from __future__ import annotations

import netrc
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from arcslim.errors import InputError

# Tracker -> modules of which one must be there, and how to get it.
NEEDS = {
    "wandb": (("wandb",), 'pip install "arcslim[wandb]"'),
    "trackio": (("trackio",), 'pip install "arcslim[trackio]"'),
    "tensorboard": (("tensorboard", "tensorboardX"), "pip install tensorboard"),
}
WANDB_QUIET_MODES = ("offline", "disabled", "dryrun")
WANDB_LOGINS = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
HF_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


def prepare_report_to(
    report_to: Sequence[str],
    run_dir: Path | None = None,
    *,
    variables: MutableMapping[str, str] | None = None,
    installed: Callable[[str], bool] | None = None,
) -> tuple[list[str], list[str]]:
    """What to pass as ``report_to`` to the trainer, and warnings for the user. Changes the environment so that no
    tracker asks for a login: W&B without a key records offline, trackio without a token stays local. Their files go
    into ``run_dir`` where the user chose no place. Call it before the trainer is made.

    Raises:
        InputError: an unknown tracker, or one whose package is not installed.
    """
    variables = os.environ if variables is None else variables
    installed = _installed if installed is None else installed
    chosen = [name for name in dict.fromkeys(report_to) if name != "none"]
    for name in chosen:
        if name not in NEEDS:
            raise InputError(f"run.report_to: no tracker {name!r}", f"Known: {', '.join(NEEDS)}.")
        modules, install = NEEDS[name]
        if not any(installed(module) for module in modules):
            raise InputError(f"run.report_to asks for {name}, which is not installed", f"Install it: {install}")
    warnings: list[str] = []
    if "wandb" in chosen:
        warnings += _prepare_wandb(variables)
    if "trackio" in chosen:
        warnings += _prepare_trackio(variables)
    if run_dir is not None:
        for name, variable, folder in (
            ("wandb", "WANDB_DIR", run_dir),
            ("tensorboard", "TENSORBOARD_LOGGING_DIR", run_dir / "tensorboard"),
        ):
            if name in chosen:
                variables.setdefault(variable, str(folder))
    return chosen, warnings


def _prepare_wandb(variables: MutableMapping[str, str]) -> list[str]:
    # Checkpoints are large, and may be private: they go up only where the user says so.
    variables.setdefault("WANDB_LOG_MODEL", "false")
    if variables.get("WANDB_MODE", "").lower() in WANDB_QUIET_MODES or variables.get("WANDB_DISABLED") == "true":
        return []
    if has_wandb_login(variables):
        return []
    variables["WANDB_MODE"] = "offline"
    return [
        "no W&B login found (WANDB_API_KEY, or `wandb login`): it records offline; `wandb sync` sends the run up later"
    ]


def has_wandb_login(variables: Mapping[str, str]) -> bool:
    return any(variables.get(name) for name in WANDB_LOGINS) or _netrc_login(variables)


def has_hub_token(variables: Mapping[str, str]) -> bool:
    return any(variables.get(name, "").strip() for name in HF_TOKEN_VARIABLES) or _hf_token_file(variables)


def _netrc_login(variables: Mapping[str, str]) -> bool:
    """Is there a W&B login in a netrc file, where `wandb login` puts it? The key itself is not kept."""
    host = urlsplit(variables.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or "api.wandb.ai"
    home = Path(variables.get("HOME") or Path.home())
    named = variables.get("NETRC")
    for path in [Path(named).expanduser()] if named else [home / ".netrc", home / "_netrc"]:
        try:
            if netrc.netrc(path).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):  # absent or broken: no login that W&B could read either
            continue
    return False


def _prepare_trackio(variables: MutableMapping[str, str]) -> list[str]:
    space = variables.get("TRACKIO_SPACE_ID")
    if not space or has_hub_token(variables):
        return []
    del variables["TRACKIO_SPACE_ID"]
    return [f"no Hugging Face token found: trackio records on this machine instead of the space {space}"]


def _hf_token_file(variables: Mapping[str, str]) -> bool:
    home = Path(variables.get("HOME") or Path.home())
    folder = Path(variables.get("HF_HOME") or home / ".cache" / "huggingface")
    return Path(variables.get("HF_TOKEN_PATH") or folder / "token").is_file()


def _installed(module: str) -> bool:
    return find_spec(module) is not None

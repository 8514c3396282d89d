"""Own rewards, by ``package.module:Name`` or ``package.module:Name=weight``."""

from __future__ import annotations

import importlib
import math
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import cast

from arcslim.errors import RewardError
from arcslim.rewards.base import Reward

FORM = "an own reward is named as package.module:Name or package.module:Name=weight"


@dataclass(frozen=True)
class RewardSpec:
    """One entry of ``reward.extra``, taken apart."""

    module: str
    attribute: str
    weight: float


def parse_reward_spec(text: str) -> RewardSpec:
    """Take a spec apart.

    Raises:
        RewardError: if it has another form, or the weight is no finite number.
    """
    place, equals, weight_text = text.strip().partition("=")
    module, colon, attribute = place.strip().partition(":")
    names = [*module.split("."), *attribute.split(".")]
    if not colon or not all(name.isidentifier() for name in names):
        raise RewardError(f"reward {text!r} cannot be read", FORM)
    if not equals:
        return RewardSpec(module, attribute, 1.0)
    try:
        weight = float(weight_text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise RewardError(f"reward {text!r}: the weight {weight_text.strip()!r} is no finite number", FORM)
    return RewardSpec(module, attribute, weight)


def load_reward(spec: RewardSpec) -> Reward:
    """Import the object; a class is instantiated without arguments.

    The working directory is searched last, so that a file beside the run can be named without installing it.

    Raises:
        RewardError: if it cannot be imported, found, instantiated or called, or has no usable name.
    """
    where = f"reward {spec.module}:{spec.attribute}"
    found: object = _module(spec.module, where)
    for name in spec.attribute.split("."):
        if not hasattr(found, name):
            raise RewardError(f"{where}: {name!r} is not in it", _known_names(found))
        found = getattr(found, name)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise RewardError(
                f"{where}: {type(error).__name__} on making one: {error}",
                "a class is made without arguments: give each a default, or name an instance",
            ) from error
    if not callable(found):
        raise RewardError(
            f"{where} is a {type(found).__name__} and cannot be called",
            "a reward is called with the rollouts and returns one number for each",
        )
    reward_name(found)
    return cast(Reward, found)


def reward_name(reward: object) -> str:
    """The reward's ``name``, or a function's own.

    Raises:
        RewardError: if it has none, or one that would not serve as the name of a metric.
    """
    name = getattr(reward, "name", None) or getattr(reward, "__name__", None)
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise RewardError(
            f"the reward {type(reward).__name__} has the name {name!r}",
            "give it an attribute `name` of letters, digits and _: its metric is reward/<name>",
        )
    return name


def _module(name: str, where: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a script that ends the process when it is imported
        raise RewardError(
            f"{where} cannot be imported: {type(error).__name__}: {error}",
            f"searched in the installed packages, PYTHONPATH and {here}",
        ) from error


def _known_names(found: object) -> str:
    names = [name for name in vars(found) if not name.startswith("_") and callable(getattr(found, name))]
    return "it has " + ", ".join(sorted(names)[:12]) if names else "nothing in it can be called"

"""What a batch is made of: how many prompts and completions a rollout has, and how many updates it gives.

The arithmetic is TRL 1.15's (``GRPOConfig.__post_init__``, ``GRPOTrainer._get_train_sampler``, ``_prepare_inputs``):

- a rollout holds ``per_device_batch x steps_per_generation x world_size`` completions, a whole number of groups;
- advantages are computed over whole groups, across processes, *before* the rollout is cut up. So a group is always
  normalised over all its members, also when it does not fit a micro-batch;
- the rollout's rows are then shuffled and cut into ``steps_per_generation`` micro-batches: the members of a group are
  spread over micro-batches whatever the batch size is;
- an optimizer step takes ``accumulation`` micro-batches.

Unsloth's GRPOConfig raises the batch to ``num_generations`` only where ``steps_per_generation`` is not given; stock TRL
(on the CPU) then refuses. This project always gives it, so both take the batch as it is asked for, or refuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from arcslim.config import GrpoSection, OptimSection
from arcslim.errors import ConfigError, Problem


class TrainerArguments(Protocol):
    """The part of TRL's GRPOConfig that says which geometry is in force."""

    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    steps_per_generation: int
    num_generations: int
    num_iterations: int
    world_size: int


@dataclass(frozen=True)
class Geometry:
    """Sizes in completions (rows) and steps; ``world_size`` is the number of processes that train together."""

    per_device_batch: int
    accumulation: int
    steps_per_generation: int
    num_generations: int
    num_iterations: int = 1
    world_size: int = 1

    @property
    def completions_per_rollout(self) -> int:
        return self.per_device_batch * self.steps_per_generation * self.world_size

    @property
    def prompts_per_rollout(self) -> int:
        return self.completions_per_rollout // self.num_generations

    @property
    def completions_per_step(self) -> int:
        """Rows in one optimizer step, over all processes."""
        return self.per_device_batch * self.accumulation * self.world_size

    @property
    def optimizer_steps_per_rollout(self) -> float:
        """Updates that one rollout gives; not whole where an update reaches over rollouts."""
        return self.steps_per_generation * self.num_iterations / self.accumulation

    @property
    def steps_to_rollout_end(self) -> int:
        """Optimizer steps after which a rollout ends as a step does: the least number that is whole on both sides."""
        micro_steps = self.steps_per_generation * self.num_iterations
        return micro_steps // math.gcd(micro_steps, self.accumulation)

    @property
    def groups_whole(self) -> bool:
        """Whether a rollout is made of whole groups. It must be: TRL refuses the rest."""
        return self.completions_per_rollout % self.num_generations == 0

    @property
    def group_fits_micro_batch(self) -> bool:
        """Whether a micro-batch has room for a group. It costs nothing if not: advantages are computed before."""
        return self.per_device_batch >= self.num_generations

    @property
    def clipping_acts(self) -> bool:
        """Whether the ratio can leave 1: only where a rollout is used for more than one update."""
        return self.optimizer_steps_per_rollout > 1

    @classmethod
    def from_config(cls, grpo: GrpoSection, optim: OptimSection, world_size: int = 1) -> Geometry:
        """The geometry asked for. Raises ConfigError where groups would not be whole."""
        geometry = cls(
            per_device_batch=optim.per_device_train_batch_size,
            accumulation=optim.gradient_accumulation_steps,
            steps_per_generation=grpo.steps_per_generation,
            num_generations=grpo.num_generations,
            num_iterations=grpo.num_iterations,
            world_size=world_size,
        )
        if not geometry.groups_whole:
            rows, group = geometry.completions_per_rollout, geometry.num_generations
            what = f"{rows} completions a rollout do not divide into groups of {group}"
            raise ConfigError([Problem("grpo.num_generations", what, f"choose a divisor of {rows}")])
        return geometry

    @classmethod
    def in_force(cls, arguments: TrainerArguments) -> Geometry:
        """The geometry that a built trainer's arguments hold, whatever a library made of what was asked for."""
        return cls(
            per_device_batch=arguments.per_device_train_batch_size,
            accumulation=arguments.gradient_accumulation_steps,
            steps_per_generation=arguments.steps_per_generation,
            num_generations=arguments.num_generations,
            num_iterations=arguments.num_iterations,
            world_size=arguments.world_size,
        )

    def changes(self, in_force: Geometry) -> list[str]:
        """What a library changed: ``per_device_batch: asked 1, in force 8``. Empty where nothing was."""
        return [
            f"{name}: asked {asked}, in force {got}"
            for name in self.__dataclass_fields__
            if (asked := getattr(self, name)) != (got := getattr(in_force, name))
        ]

    def describe(self) -> list[str]:
        """The geometry in words, a line each, for the console and ``--dry-run``."""
        processes = f" x {self.world_size} processes" if self.world_size > 1 else ""
        updates = self.optimizer_steps_per_rollout
        lines = [
            f"rollout: {self.prompts_per_rollout} prompts x {self.num_generations} generations = "
            f"{self.completions_per_rollout} completions "
            f"(batch {self.per_device_batch} x {self.steps_per_generation} steps_per_generation{processes})",
            f"update: {self.completions_per_step} completions "
            f"(batch {self.per_device_batch} x {self.accumulation} accumulation{processes}); "
            f"{updates:g} {'update' if updates == 1 else 'updates'} a rollout",
            f"groups: whole; each is normalised over its {self.num_generations} members before the rollout is shuffled "
            "and cut into micro-batches",
        ]
        if not self.clipping_acts:
            lines.append("clipping: one update a rollout, so the ratio is always 1 and epsilon and delta do nothing")
        return lines


def compare(asked: Geometry, in_force: Geometry) -> list[str]:
    """Both geometries in words, as issue trackers ask for them: what was asked for, and what is in force."""
    changed = asked.changes(in_force)
    lines = [f"asked for {line}" for line in asked.describe()]
    if not changed:
        return [*lines, "in force: as asked for"]
    return [*lines, *(f"in force {line}" for line in in_force.describe()), *(f"changed {line}" for line in changed)]

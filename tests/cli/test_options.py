"""The options that every training command takes."""

from __future__ import annotations

from arcslim.cli.options import TrainOptions
from arcslim.presets import FLAGS


def test_named_flags_win_over_set_and_preset() -> None:
    options = TrainOptions(
        preset="cpu",
        model="Qwen/Qwen3-8B",
        data=["arc1:train", "rearc=0.5"],
        reward=["mine.rewards:Tidy=0.1"],
        max_steps=30,
        run_dir="runs/x",
        seed=7,
        sets=["model.name=other", "run.max_steps=40", "lora.r=4"],
    )
    config = options.resolve().config
    assert config.model.name == "Qwen/Qwen3-8B"
    assert config.data.sources == ("arc1:train", "rearc=0.5")
    assert config.reward.extra == ("mine.rewards:Tidy=0.1",)
    assert (config.run.max_steps, config.run.dir, config.run.seed, config.lora.r) == (30, "runs/x", 7, 4)


def test_flags_that_are_not_given_change_nothing() -> None:
    resolved = TrainOptions().resolve()
    assert resolved.changed() == []


def test_every_flag_names_itself_as_the_origin() -> None:
    options = TrainOptions(model="a", data=["rearc"], reward=["a:B"], max_steps=20, run_dir="d", seed=1)
    origins = options.resolve().origins
    assert {path: origins[path] for path in FLAGS} == dict(FLAGS)

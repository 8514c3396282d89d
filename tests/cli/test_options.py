"""The options that every training command takes."""

from __future__ import annotations

from arcslim.cli.options import TrainOptions
from arcslim.layers import FLAGS


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
    named = {path for path in FLAGS if not path.startswith(("sft.", "her."))}
    assert {path: origins[path] for path in named} == {path: FLAGS[path] for path in named}


def test_flags_of_her_are_its_own() -> None:
    flags = {"her.target": "chick", "her.model": "b"}
    resolved = TrainOptions(max_steps=7, max_steps_knob="her.max_epochs", flags=flags).resolve()
    assert (resolved.config.her.target, resolved.config.her.model, resolved.config.her.max_epochs) == ("chick", "b", 7)
    assert resolved.config.model.name != "b"
    named = ("her.target", "her.model", "her.max_epochs")
    assert [resolved.origins[path] for path in named] == ["--target", "--model", "--max-epochs"]


def test_flags_of_sft_are_its_own() -> None:
    options = TrainOptions(max_steps=7, max_steps_knob="sft.max_steps", flags={"sft.packing": "bfd"})
    resolved = options.resolve()
    assert (resolved.config.sft.max_steps, resolved.config.sft.packing) == (7, "bfd")
    assert resolved.config.run.max_steps != 7
    assert {path: at for path, at in resolved.origins.items() if path in ("sft.max_steps", "sft.packing")} == {
        "sft.max_steps": "--max-steps",
        "sft.packing": "--packing/--no-packing",
    }

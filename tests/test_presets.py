"""Presets, and how a value is resolved: default < preset < --set < named flag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.config import Config
from arcslim.errors import ConfigError, InputError
from arcslim.presets import find_preset, list_presets, load_config, load_preset_text, presets_folder, to_toml

NAMES = {"cpu", "4090", "h100", "h100-14b", "4090-14b", "4090-base", "4090-r1", "canary", "olympiccoder-7b"}
PRESETS = sorted(presets_folder().glob("*.toml"))


RATES = ("learning_rate", "batch_size", "num_train_epochs")


def recipe(path: Path) -> str:
    """The recipe that a preset is for in the first place, as its first line says."""
    return "sft" if path.read_text().startswith(f"# {path.stem}: SFT") else "grpo"


def refused(*arguments: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(*arguments)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
class TestShipped:
    def test_it_resolves_without_a_doubt(self, path: Path) -> None:
        resolved = load_config(path.stem)
        assert resolved.preset == path.stem
        assert resolved.warnings == ()

    def test_its_header_has_the_command_the_purpose_and_the_memory(self, path: Path) -> None:
        preset = find_preset(path.stem)
        assert preset.header[0].startswith(f"{path.stem}: ")
        assert preset.entry("Run") == f"arcslim {recipe(path)} --preset {path.stem}"
        assert preset.entry("Made for")
        assert re.match(r"(about|planned) [\d.]+ Gi?B ", preset.entry("Memory"))
        assert re.search(r"measured", preset.entry("Memory")), "say where the figure comes from"

    def test_it_is_complete_in_what_costs_memory_and_says_what_each_costs(self, path: Path) -> None:
        sections = {section.partition("]")[0]: section for section in path.read_text().split("\n[")}
        costly = {"sft": ("per_device_train_batch_size", "max_length")}
        said = {"model": ("load_in_4bit", "max_seq_length"), "prompt": ("max_tokens",), "sft": RATES}
        if recipe(path) == "grpo":
            costly |= {"optim": ("per_device_train_batch_size",), "generation": ("rollout_batch",)}
            costly |= {"run": ("eval_batch",)}
            said |= {"lora": ("r",)}
        for section, knobs in costly.items():
            for knob in knobs:
                assert re.search(rf"^{knob} = \d+  # memory", sections[section], re.MULTILINE), knob
        for section, knobs in said.items():
            for knob in knobs:
                assert re.search(rf"^{knob} = ", sections[section], re.MULTILINE), knob

    def test_its_header_says_how_to_teach_with_it(self, path: Path) -> None:
        """One preset serves every recipe: its rows fit the context, and without a card it writes them itself."""
        config = load_config(path.stem).config
        assert config.sft.max_length is not None
        assert config.prompt.max_tokens < config.sft.max_length <= config.model.max_seq_length
        if recipe(path) == "sft":
            return
        said = find_preset(path.stem).entry("SFT")
        assert said.startswith(f"arcslim sft --preset {path.stem} ")
        assert ("--data" in said) == (config.model.name != "tiny")
        assert bool(re.search(r"Planned: [\d.]+ GiB", said)) == (config.model.name != "tiny")

    def test_its_resolved_form_is_a_preset_that_resolves_to_the_same(self, path: Path, tmp_path: Path) -> None:
        resolved = load_config(path.stem)
        saved = tmp_path / "resolved.toml"
        saved.write_text(to_toml(resolved.config, resolved.origins))
        assert load_config(str(saved)).config == resolved.config


def test_the_presets_asked_for_are_shipped() -> None:
    assert {preset.name for preset in list_presets()} >= NAMES


def test_the_4090_takes_the_lengths_that_were_agreed() -> None:
    config = load_config("4090").config
    assert (config.prompt.max_tokens, config.generation.max_completion_length) == (4096, 2048)
    assert (config.model.name, config.model.load_in_4bit) == ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", True)
    assert config.optim.optim == "paged_adamw_8bit"


def test_olympiccoder_is_as_it_was_published() -> None:
    config = load_config("olympiccoder-7b").config
    sft = config.sft
    assert (config.model.name, config.model.full_finetuning) == ("Qwen/Qwen2.5-Coder-7B-Instruct", True)
    assert (sft.learning_rate, sft.batch_size, sft.num_train_epochs, sft.max_length) == (4e-5, 128, 10.0, 32768)
    assert (sft.lr_scheduler_type, sft.lr_min_ratio, sft.packing) == ("cosine_with_min_lr", 0.1, "none")
    assert (sft.prefill_template, sft.over_length, config.optim.optim) == (True, "drop", "paged_adamw_8bit")
    assert sft.gradient_accumulation_steps == 128


def test_the_smaller_forms_of_olympiccoder_resolve_without_a_doubt() -> None:
    """The settings that its header offers to those with less memory, one after the other."""
    header = "\n".join(find_preset("olympiccoder-7b").header)
    sets = re.findall(r"--set (\S+=[\w.-]*\w)", header)
    assert [text.partition("=")[0] for text in sets] == [
        "model.full_finetuning", "sft.batch_size", "sft.num_train_epochs", "sft.learning_rate",
        "model.load_in_4bit", "sft.max_length",
    ]  # fmt: skip
    for number in (4, 5, 6):
        resolved = load_config("olympiccoder-7b", sets[:number])
        assert resolved.warnings == ()
        assert not resolved.config.model.full_finetuning


def test_default_then_preset_then_set_then_flag() -> None:
    default = Config().run.max_steps
    preset = load_config("canary")
    by_set = load_config("canary", ["run.max_steps=7"])
    by_flag = load_config("canary", ["run.max_steps=7"], {"run.max_steps": 9, "run.seed": None})
    assert default != preset.config.run.max_steps == 20
    assert (by_set.config.run.max_steps, by_flag.config.run.max_steps) == (7, 9)
    assert re.fullmatch(r"presets/canary\.toml:\d+", preset.origins["run.max_steps"])
    assert by_set.origins["run.max_steps"] == "--set run.max_steps"
    assert by_flag.origins["run.max_steps"] == "--max-steps"
    assert by_flag.origins["run.seed"] == "default"
    assert ("run.max_steps", 9, "--max-steps") in by_flag.changed()


def test_the_origin_is_the_line_of_the_preset() -> None:
    file, _, line = load_config("4090").origins["generation.rollout_batch"].rpartition(":")
    assert file == "presets/4090.toml"
    assert find_preset("4090").text.splitlines()[int(line) - 1].startswith("rollout_batch = ")


def test_the_last_of_two_sets_wins() -> None:
    assert load_config(None, ["lora.r=8", "lora.r=4"]).config.lora.r == 4


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("model.name=Qwen/Qwen2.5-7B", "model.name", "Qwen/Qwen2.5-7B"),
        ('model.name="quoted"', "model.name", "quoted"),
        ("model.name=a=b", "model.name", "a=b"),
        ("run.dir=2026", "run.dir", "2026"),
        ("model.use_gradient_checkpointing=true", "model.use_gradient_checkpointing", "true"),
        ("grpo.delta=none", "grpo.delta", None),
        ("optim.learning_rate = 1e-6", "optim.learning_rate", 1e-6),
        ("optim.weight_decay=0", "optim.weight_decay", 0.0),
        ('data.sources=["rearc=0.5", "arc1:train"]', "data.sources", ("rearc=0.5", "arc1:train")),
        ("model.load_in_4bit=false", "model.load_in_4bit", False),
    ],
)
def test_a_set_is_toml_or_else_plain_text(text: str, path: str, value: object) -> None:
    section, name = path.split(".")
    assert getattr(getattr(load_config(None, [text]).config, section), name) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lora.r=2.5", "--set lora.r: `lora.r` needs a whole number; it is 2.5"),
        ('lora.r="16"', "--set lora.r: `lora.r` needs a whole number; it is '16'"),
        ("lora.r=true", "--set lora.r: `lora.r` needs a whole number; it is True"),
        ("lora.r=0", "--set lora.r: `lora.r` needs 1 or more; it is 0"),
        ("optim.learning_rate=fast", "`optim.learning_rate` needs a number; it is 'fast'"),
        ("optim.learning_rate=nan", "`optim.learning_rate` needs a finite number; it is nan"),
        ("optim.learning_rate=1", "`optim.learning_rate` needs less than 1"),
        ("grpo.loss_type=gpro", "`grpo.loss_type` needs one of 'dapo', 'grpo', 'bnpo' or 'dr_grpo'; it is 'gpro'"),
        ("grpo.delta=high", "`grpo.delta` needs a number, or \"none\"; it is 'high'"),
        ("model.load_in_4bit=1", "`model.load_in_4bit` needs true or false; it is 1"),
        ("data.sources=rearc", "`data.sources` needs a list in brackets; it is 'rearc'"),
        ("data.sources=[]", "`data.sources` needs at least 1 entry; it is []"),
        ("data.sources=[1]", "`data.sources` needs a text in quotes in its list; it is 1"),
        ("run.max_steps=2026-01-01", "`run.max_steps` needs a whole number; it is '2026-01-01'"),
        ("run.max_steps={a=1}", "`run.max_steps` needs a whole number; it is {'a': 1}"),
        ("grpo=1", "--set grpo: `grpo` is a section, not a knob"),
        ("lora.r", "needs section.key=value"),
        ("=3", "needs section.key=value"),
        ("model.name=a\nlora.r=3", "cannot be shown"),
        ("model.name=\udcff", "cannot be shown"),
    ],
)
def test_a_wrong_value_is_said_in_words(text: str, said: str) -> None:
    (problem,) = refused(None, [text])
    assert said in problem


def test_case_15_a_misspelt_key_in_a_set_is_refused_with_its_place() -> None:
    """Case 15: `learnign_rate` in a --set, in the wrong section too: refused with a suggestion."""
    (problem,) = refused("cpu", ["grpo.learnign_rate=1"])
    assert problem == "--set grpo.learnign_rate: there is no `grpo.learnign_rate` (did you mean `optim.learning_rate`?)"


def test_case_15_a_misspelt_key_in_a_preset_is_refused_with_its_line(tmp_path: Path) -> None:
    """Case 15: `learnign_rate` in a preset: refused with file, line and a suggestion."""
    file = tmp_path / "mine.toml"
    file.write_text("# mine\n[model]\nname = 'tiny'\n\n[optim]\nlearnign_rate = 1e-5\n")
    (problem,) = refused(str(file))
    assert problem.startswith(f"{file}:6: there is no `optim.learnign_rate`")
    assert problem.endswith("(did you mean `optim.learning_rate`?)")


def test_all_problems_of_all_layers_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[optim]\nlearning_rate = "x"\n[optimizer]\nbeta = 1\n[lora]\nr = 2.5\n[grpo]\nlora = {r = 3}\n')
    found = refused(str(file), ["modle.name=a", "lora=3"], {"run.max_steps": 0})
    places = [problem.split(": ")[0].removeprefix(f"{tmp_path}/") for problem in found]
    assert sorted(places) == sorted(
        ["mine.toml:2", "mine.toml:4", "mine.toml:6", "mine.toml:8", "--set modle.name", "--set lora", "--max-steps"]
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[model\nname = 1", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"model = 'tiny'", ":1: `model` is a section, not a knob"),
        (b"[[model]]\nname = 'tiny'", ":1: `model` is a section, not a knob"),
        (b"[model.name]\nx = 1", "`model.name` needs a text in quotes"),
        (b"[nothing.at.all]", "there is no `nothing.at.all`"),
    ],
)
def test_a_file_that_is_no_preset_says_why(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_config(str(file))
    assert said in str(caught.value)
    assert "bad.toml" in str(caught.value)


def test_an_unknown_preset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError) as caught:
        load_config("4090-14")
    assert caught.value.hint is not None
    assert "did you mean 4090-14b?" in caught.value.hint
    with pytest.raises(InputError, match=r"preset file .* does not exist"):
        load_config("nowhere/mine.toml")


TEXT = st.text(min_size=1).filter(lambda text: text != "none")
LISTS = st.lists(st.text(), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "model.name": st.text(),
    "model.revision": st.none() | TEXT,
    "model.trust_remote_code": st.booleans(),
    "lora.r": st.integers(1, 2**70),
    "lora.lora_dropout": st.floats(0, 1),
    "lora.target_modules": st.lists(st.text(), min_size=1, max_size=3),
    "data.holdout_families": LISTS,
    "reward.extra": LISTS,
    "reward.grid.weight": st.floats(1, allow_infinity=False),
    "reward.min_thinking.mode": st.sampled_from(["none", "bonus", "gate", "floor"]),
    "grpo.delta": st.none() | st.floats(1, exclude_min=True, allow_infinity=False),
    "grpo.epsilon_high": st.none() | st.floats(0.2, 9),
    "optim.learning_rate": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "optim.warmup_steps": st.floats(0, 1e6),
    "generation.min_p": st.none() | st.floats(0, 1),
    "run.dir": st.none() | TEXT,
    "run.max_hours": st.none() | st.floats(0, exclude_min=True, allow_infinity=False),
    "run.report_to": st.lists(st.sampled_from(["wandb", "trackio", "tensorboard"]), max_size=3),
}


@settings(deadline=None, max_examples=60)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_a_resolved_file_is_a_preset_that_resolves_to_the_same(values: dict[str, Any]) -> None:
    resolved = load_config(None, [], values)
    again = load_preset_text(to_toml(resolved.config, resolved.origins), "resolved.toml")
    assert again.config == resolved.config
    assert again.warnings == tuple(
        type(warning)(again_warning.where, warning.what, warning.hint)
        for warning, again_warning in zip(resolved.warnings, again.warnings, strict=True)
    )

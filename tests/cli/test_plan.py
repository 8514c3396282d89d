"""``arcslim plan``."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.cards import config_of, find_model
from arcslim.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    captured = capsys.readouterr()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code, " ".join(captured.out.split()), captured.err


def test_the_preset_fits_its_card(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", "--preset", "4090")
    assert (code, err) == (0, "")
    assert "on RTX 4090" in out and "it fits" in out
    assert all(
        word in out for word in ("load", "rollout", "update", "KV cache", "checkpoints, offloaded", "error band")
    )
    assert "longest context" in out and "most generations" in out and "largest micro-batch" in out
    assert "fastest within the memory" in out


def test_8_gib_are_too_few_and_the_cheapest_knob_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--preset", "4090", "--gpu", "8")
    assert code == 3
    assert "it does not fit" in out
    assert "cheapest single knob: the model Qwen2.5-0.5B" in out
    assert "--set generation.rollout_batch=" in out
    assert run(capsys, "plan", "--preset", "4090", "--gpu", "8", "--model", "Qwen/Qwen2.5-0.5B-Instruct")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--preset", "4090"],
        ["--preset", "4090", "--recipe", "her"],
        ["--preset", "4090", "--gpu", "8"],
        ["--model", "Qwen/Qwen3-32B", "--gpu", "b200", "--vllm"],
    ],
    ids=["4090", "her", "too-small", "vllm"],
)
def test_it_takes_under_a_second_without_torch_or_a_network(words: list[str]) -> None:
    """Of processor time: the machine may be busy. Offline: a socket is an error."""
    code = (
        "import sys, atexit, socket\n"
        "socket.socket.connect = lambda *_: sys.exit('the network was asked')\n"
        "heavy = ('torch', 'transformers', 'huggingface_hub', 'numpy.linalg')\n"
        "atexit.register(lambda: print([name for name in heavy[:3] if name in sys.modules], file=sys.stderr))\n"
        "from arcslim.cli.main import main\n"
        f"main(['plan', *{words}])\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 3), done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


@pytest.mark.parametrize(("gpu", "code"), [("4090", 0), ("8", 3)])
def test_json_parses_and_exits_alike(capsys: pytest.CaptureFixture[str], gpu: str, code: int) -> None:
    got, out, _ = run(capsys, "plan", "--preset", "4090", "--gpu", gpu, "--json")
    told = json.loads(out)
    assert got == code
    assert told["fits"] is (code == 0)
    assert bool(told["mends"]) is (code == 3)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    setup: dict[str, object] = json.loads(run(capsys, "plan", *words, "--json")[1])["setup"]
    return setup


def test_the_flags_are_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--model Qwen3-8B --gpu h100 --context 16384 --generations 12 --batch 2 --quantisation bf16 --lora-r 8"
    setup = told(capsys, *words.split(), "--set", "prompt.max_tokens=4096")
    expected = {"recipe": "grpo", "prompt": 4096, "completion": 12288, "row": 16384, "generations": 12, "lora_r": 8}
    assert {name: setup[name] for name in expected} == expected
    assert (setup["rollout_rows"], setup["micro_batch"], setup["four_bit"]) == (12, 2, False)
    assert told(capsys, "--preset", "h100", "--vllm")["vllm"] is True
    sft = told(capsys, "--preset", "4090", "--recipe", "sft", "--context", "8000", "--lora-r", "32")
    assert (sft["recipe"], sft["row"], sft["lora_r"]) == ("sft", 8000, 32)


def test_a_preset_for_sft_is_planned_as_sft(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--preset", "olympiccoder-7b")["recipe"] == "sft"


def test_a_run_folder_and_its_preset_can_be_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(find_model("Qwen3-1.7B"))))
    code, out, _ = run(capsys, "plan", "--model", str(tmp_path), "--gpu", "h200")
    assert code == 0 and "1.72 billion parameters" in out
    assert run(capsys, "plan", "--model", str(tmp_path / "config.json"), "--gpu", "h200")[0] == 0


def test_an_adapter_brings_its_rank_unless_another_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = {"base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": 128}
    (tmp_path / "adapter_config.json").write_text(json.dumps(said))
    assert told(capsys, "--model", str(tmp_path), "--gpu", "h100")["lora_r"] == 128
    assert told(capsys, "--model", str(tmp_path), "--gpu", "h100", "--lora-r", "8")["lora_r"] == 8


@pytest.mark.parametrize("recipe", ["her", "her-pretrain"])
def test_her_is_planned_with_its_own_model_and_flags(capsys: pytest.CaptureFixture[str], recipe: str) -> None:
    words = ["--preset", "4090", "--lora-r", "8", "--quantisation", "nf4", "--batch", "4"]
    setup = told(capsys, *words, "--recipe", recipe)
    assert setup["model_name"] == "Qwen/Qwen2.5-Coder-0.5B-Instruct"
    assert (setup["recipe"], setup["lora_r"], setup["four_bit"], setup["micro_batch"]) == (recipe, 8, True, 4)
    assert told(capsys, *words, "--recipe", recipe, "--model", "Qwen/Qwen3-4B")["model_name"] == "Qwen/Qwen3-4B"
    code, out, _ = run(capsys, "plan", "--preset", "4090", "--recipe", recipe)
    assert code == 0 and f"{recipe} of Qwen/Qwen2.5-Coder-0.5B-Instruct (0.49 billion parameters) on RTX 4090" in out


def test_hers_context_is_the_question_and_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    setup = told(capsys, "--preset", "4090", "--recipe", "her", "--context", "2000")
    assert setup["row"] == 2000 == int(str(setup["prompt"])) + int(str(setup["completion"]))
    code, _, err = run(capsys, "plan", "--preset", "4090", "--recipe", "her", "--context", "300")
    assert code == 2 and "the question alone" in " ".join(err.split())


def test_the_embedded_model_that_draws_is_planned_in_ram(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--recipe", "her")
    assert code == 0 and "her of tiny-draw (" in out and "million parameters) on a CPU" in out


def test_what_unsloths_copy_keeps_in_16_bits_is_an_item_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "--preset", "4090-14b", "--model", "Qwen/Qwen2.5-14B-Instruct")
    code, out, _ = run(capsys, *words)
    assert code == 3
    assert "maps not packed" in out and "keeps 22% of the linear maps in 16 bits" in out
    assert "and 1.5 GiB more for the weights" in out
    packing = json.loads(run(capsys, *words, "--json")[1])["packing"]
    assert packing["copy"] == "unsloth/Qwen2.5-14B-Instruct-unsloth-bnb-4bit" and packing["most"] > packing["kept"] > 0
    assert run(capsys, "plan", "--preset", "4090-14b")[0] == 0


def test_vllm_that_cannot_start_is_said_and_mended(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "--preset", "h100", "--vllm", "--set", "model.gpu_memory_utilization=0.1")
    code, out, _ = run(capsys, *words)
    assert code == 3 and "vLLM would not start" in out
    assert "--set model.gpu_memory_utilization=" in out.partition("cheapest")[2]
    assert "generations in vLLM's cache at once" in out


def test_without_a_gpu_the_tiny_model_is_planned_in_ram(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--preset", "cpu")
    assert code == 0 and "on a CPU" in out and "GiB on the GPU" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "Qwen/Qwen2.5-7B-Instrukt", "--gpu", "24"), "did you mean Qwen/Qwen2.5-7B-Instruct?"),
        (("--model", "someone/unheard-of", "--gpu", "24"), "give its config.json"),
        (("--preset", "4090", "--gpu", "4091x"), "did you mean 4090?"),
        (("--model", "Qwen3-8B"), "on which GPU?"),
        (("--preset", "4091"), "did you mean 4090"),
        (("--preset", "4090", "--set", "generation.rolout_batch=1"), "did you mean `generation.rollout_batch`?"),
        (("--preset", "4090", "--quantisation", "int3"), "nf4"),
        (("--model", "/nowhere/at/all", "--gpu", "24"), "there is no model at /nowhere/at/all"),
        (("--model", "random:Qwen9", "--gpu", "24"), "did you mean"),
        (("--preset", "4090", "--gpu", "RTX 4070"), "give its memory in GiB"),
        (("--preset", "4090", "--gpu", "1080"), "unknown GPU '1080'"),
        (("--preset", "4090", "--recipe", "her", "--vllm"), "HER draws without vLLM"),
        (("--preset", "4090", "--generations", "1"), "greater than or equal to"),
        (("--preset", "4090", "--context", "1"), "greater than or equal to"),
    ],
)
def test_slips_exit_2_with_a_suggestion(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    code, _, err = run(capsys, "plan", *words)
    assert code == 2
    assert said in " ".join(err.split())


def test_what_is_advised_past_the_context_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """17,472 tokens were advised beside a context of 16,384: typed so the configuration refused them."""
    from arcslim.presets import load_config

    code, said, _ = run(capsys, "plan", "--preset", "4090", "--context", "20000")
    assert code == 3
    assert "rows of 20,000 tokens want --set model.max_seq_length=20000: it is 16,384" in said
    advised = re.search(r"--set generation\.max_completion_length=(\d+) --set model\.max_seq_length=(\d+)", said)
    assert advised is not None
    sets = [f"generation.max_completion_length={advised[1]}", f"model.max_seq_length={advised[2]}"]
    assert load_config("4090", sets, recipe="grpo").config.model.max_seq_length == int(advised[2]) > 16384
    assert f"with --set model.max_seq_length={advised[2]}" in said
    assert "want --set model.max_seq_length" not in run(capsys, "plan", "--preset", "4090", "--gpu", "8")[1]

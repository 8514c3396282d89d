"""``arcslim bench``: real runs on the tiny model, what is refused, and where growing ends."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from arcslim.cards import find_gpu, find_model
from arcslim.cli import bench
from arcslim.errors import ArcslimError, DoesNotFitError, InputError
from arcslim.memory.ceilings import shares
from arcslim.memory.formulas import decode_ceiling
from arcslim.memory.setup import Request, setup_of
from arcslim.presets import load_config
from arcslim.runs.bench_report import markdown, table
from arcslim.runs.signals import StopRequest
from tests.recipes.made import arcslim, write_preset

SHORT = (
    "prompt.max_tokens=24",
    "generation.max_completion_length=8",
    "sft.max_length=32",
    "reward.min_thinking.mode=none",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("recipe", ["grpo", "sft"])
def test_must_show_4_table_json_and_plot_of_the_tiny_model(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, out = write_preset(tmp_path, *SHORT), tmp_path / "out"
    words = ("bench", "--preset", preset, "--recipe", recipe, "--batch-sizes", "2,1", "--steps", 1, "--out", out)
    assert arcslim(*map(str, words)) == 0
    report = json.loads((out / "bench.json").read_text())
    assert [row["batch"] for row in report["sizes"]] == [1, 2]
    for row in report["sizes"]:
        assert row["samples_per_second"] > 0 and row["tokens_per_second"]["update"] > 0
        assert 0.2 * row["planned_bytes"] < row["measured_bytes"] < 2 * row["planned_bytes"]
        if recipe == "grpo":
            assert row["completion_tokens"] == 8, "no end token ended one"
            assert row["tokens_per_second"]["prefill"] > 0 and row["tokens_per_second"]["decode"] > 0
    assert "| 1 |" in (out / "bench.md").read_text() and (out / "bench.png").read_bytes()[:4] == b"\x89PNG"
    assert "samples/s" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["bench.json", "bench.md", "bench.png"]


def size(batch: int = 2) -> bench.Size:
    return bench.one_size("cpu", (), None, "grpo", batch, 1)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("tell('the rollout'); os.kill(os.getpid(), 9)", "killed in the rollout"),
        ("tell('the update', ran_out='CUDA out of memory')", "out of memory in the update"),
    ],
)
def test_growing_ends_where_memory_does_and_the_phase_is_told(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed as the kernel does it, and one whose allocator says so: the larger sizes do not start."""
    stand_in(monkeypatch, tmp_path, program)
    with StopRequest() as stop:
        rows = list(bench._measured([size(2), size(4)], "grpo", 1, tmp_path, stop))
    assert [row["batch"] for row in rows] == [2] and said in rows[0]["failed"]


def test_a_worker_that_fails_otherwise_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "tell('loading the model'); raise ValueError('no such thing')")
    with StopRequest() as stop, pytest.raises(ArcslimError) as caught:
        list(bench._measured([size()], "grpo", 1, tmp_path, stop))
    assert "loading the model: ValueError: no such thing" in str(caught.value) and "batch-2.log" in str(caught.value)


def test_a_wish_to_stop_ends_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "tell('the rollout'); os.kill(os.getppid(), 15); time.sleep(60)")
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2", "--out", str(tmp_path)) == 128 + signal.SIGTERM
    assert not json.loads((tmp_path / "bench.json").read_text())["sizes"]
    assert not list(tmp_path.glob("batch-*")), "nothing of the size that was stopped is left"


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """Another program in the worker's place, which tells its phase as the worker does."""
    text = (
        "import json, os, sys, time\n"
        "def tell(phase, **more):\n"
        "    open(sys.argv[-1], 'w').write(json.dumps({'phase': phase, **more}))\n" + program
    )
    (folder / "worker.py").write_text(text)
    monkeypatch.setattr(bench, "WORKER", (sys.executable, str(folder / "worker.py")))


def test_a_size_that_the_ram_has_no_room_for_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_free_ram", lambda: 2**30)
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2,4", "--out", str(tmp_path)) == 3
    report = json.loads((tmp_path / "bench.json").read_text())
    assert len(report["sizes"]) == 1 and "not started" in report["sizes"][0]["failed"]
    with pytest.raises(DoesNotFitError):
        bench.bench(preset="cpu", batch_sizes="2", out=tmp_path)


@pytest.mark.parametrize("text", ["", "0", "1,x", "-1", "5000"])
def test_slips_in_batch_sizes(text: str) -> None:
    with pytest.raises(InputError):
        bench.read_batches(text)
    assert arcslim("bench", "--preset", "cpu", f"--batch-sizes={text}") == 2


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 48])
def test_every_batch_size_makes_whole_groups(batch: int) -> None:
    config = size(batch).config
    rows = config.optim.per_device_train_batch_size * config.grpo.steps_per_generation
    assert rows == max(batch, 2) and rows % config.grpo.num_generations == 0
    assert config.generation.rollout_batch == batch and config.grpo.num_generations >= 2


def test_shares_of_the_ceilings() -> None:
    """By hand, for a 7B in NF4 on a 4090."""
    config = load_config("4090").config
    request = Request(find_model("Qwen2.5-7B"), find_gpu("4090"), setup_of(config))
    setup, gpu, card = request.setup, request.gpu, request.card
    found = shares(request, {"prefill": 1000.0, "decode": 100.0, "update": 500.0})
    ceiling = decode_ceiling(
        card, setup.rollout_rows, setup.prompt + setup.completion / 2, bandwidth=gpu.bandwidth, tflops=gpu.bf16_tflops,
        four_bit=True, unpacks=setup.rollout_rows > 4,
    )  # fmt: skip
    assert found["decode"] == pytest.approx(100 / ceiling)
    assert found["prefill"] == pytest.approx(1000 * 2 * card.linear_parameters / (gpu.bf16_tflops * 1e12))
    assert found["update"] == pytest.approx(
        500 * 6 * (card.linear_parameters + card.embedding_parameters) / (gpu.bf16_tflops * 1e12)
    )
    assert shares(Request(request.card, find_gpu("24"), setup), {"decode": 100.0}) == {}


def test_the_table_has_shares_on_a_gpu_and_says_where_it_ended() -> None:
    done: dict[str, Any] = {
        "batch": 1, "samples_per_second": 0.5,
        "tokens_per_second": {"prefill": 4000.0, "decode": 50.5, "update": 900.0},
        "measured_bytes": 2**33, "planned_bytes": 2**33, "planned_share": 1.0, "shares": {"decode": 0.25},
    }  # fmt: skip
    report = {
        "recipe": "grpo", "preset": "4090", "model": "random:Qwen2.5-7B", "four_bit": True, "gpu": "RTX 4090",
        "prompt_tokens": 4096, "completion_tokens": 2048, "row_tokens": 6144, "steps": 2,
        "sizes": [done, {"batch": 2, "planned_bytes": 2**34, "failed": "out of memory in the update"}],
    }  # fmt: skip
    lines = table(report).splitlines()
    assert len({line.count("|") for line in lines}) == 1 and "25%" in lines[2] and "4,000" in lines[2]
    assert "Batch 2: out of memory in the update." in markdown(report)

"""``arcslim bench``: real runs on the tiny model, what is refused, and where growing ends."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcslim.cards import find_gpu, find_model
from arcslim.cli import bench, bench_process, bench_sizes, bench_worker
from arcslim.errors import ArcslimError, DoesNotFitError, InputError, ModelError
from arcslim.memory.ceilings import shares
from arcslim.memory.formulas import CUDA_CONTEXT, decode_ceiling
from arcslim.memory.setup import Request, setup_of
from arcslim.presets import list_presets, load_config
from arcslim.runs.bench_report import markdown, phase_table, table
from arcslim.runs.signals import StopRequest
from tests.recipes.made import arcslim, write_preset
from tests.runs.made import RTX_4090, fake_smi

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


def size(batch: int = 2) -> bench_sizes.Size:
    return bench_sizes.one_size("cpu", (), None, "grpo", batch, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_limit_of_memory_ends_it_at_a_size_and_the_phase_is_told(tmp_path: Path) -> None:
    """Issue 6: batch 1 runs in 4.5 GB of address space, 64 rows of attention do not."""
    out = tmp_path / "out"
    words = ("bench", "--preset", "cpu", "--batch-sizes", "1,64", "--steps", "1", "--out", str(out))
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({4_500 * 10**6},) * 2)\n"
    line = [sys.executable, "-c", f"{limited}from arcslim.cli.main import main; main({list(words)!r})"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # each thread has a stack and an arena of its own
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    first, second = json.loads((out / "bench.json").read_text())["sizes"]
    assert first["samples_per_second"] > 0 and second["failed"] == "out of memory in the update"
    assert "batch 64: out of memory in the update" in done.stdout
    assert "Batch 64: out of memory in the update." in (out / "bench.md").read_text()


ONE_STEP = {"steps": 1, "draw": None, "seconds": None}


def run_all(settings: list[bench_sizes.Size], folder: Path) -> list[dict[str, Any]]:
    with StopRequest() as stop:
        return list(bench.measured(settings, "grpo", ONE_STEP, folder, stop))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("tell('the rollout'); os.kill(os.getpid(), 9)", "killed in the rollout"),
        ("tell('the update', ran_out='CUDA out of memory')", "out of memory in the update"),
        ("tell('the update'); print('Error out of memory at line 10 in file /src/pythonInterface.cpp'); sys.exit(1)",
         "out of memory in the update"),
        ("tell('loading the model'); sys.stderr.write('  what():  std::bad_alloc\\n'); sys.stderr.flush(); os.abort()",
         "out of memory in loading the model"),
    ],
)  # fmt: skip
def test_growing_ends_where_memory_does_and_the_phase_is_told(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed as the kernel does it, told by the allocator, ended by bitsandbytes, by the C++ library: the larger sizes
    do not start."""
    stand_in(monkeypatch, tmp_path, program)
    rows = run_all([size(2), size(4)], tmp_path)
    assert [row["batch"] for row in rows] == [2] and said in rows[0]["failed"]


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError("Unable to allocate 3 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ModelError("x could not be loaded: Make sure you have enough GPU RAM to fit the quantized model"), True),
        (RuntimeError("shapes do not agree"), False),
        (ModelError("x could not be loaded: no such file"), False),
        (OSError(28, "No space left on device"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_memory_that_ran_out(error: Exception, is_memory: bool) -> None:
    assert bench_worker.ran_out(error) is is_memory


def test_torchs_error_of_a_full_gpu_counts() -> None:
    torch = pytest.importorskip("torch")
    assert bench_worker.ran_out(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."))


def test_a_worker_that_fails_otherwise_ends_the_command_and_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {
        "done": True, "device": "cpu", "samples_per_second": 3.0, "seconds": {"update": 1.0},
        "peaks": {"update": 2**30}, "tokens_per_second": {"prefill": 9.0, "decode": 8.0, "update": 7.0},
        "notes": ["packing is off"],
    }  # fmt: skip
    program = f"""if sys.argv[1].endswith('batch-2.toml'):
    tell('the update', **{done})
else:
    tell('loading the model'); raise ValueError('no such thing')
"""
    stand_in(monkeypatch, tmp_path, program)
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2,4", "--out", tmp_path) == 1
    said = capsys.readouterr()
    assert "batch 4 failed in loading the model: ValueError: no such thing" in said.err and "batch-4.log" in said.err
    (row,) = json.loads((tmp_path / "bench.json").read_text())["sizes"]
    assert row["samples_per_second"] == 3.0 and "| 2 | 3 |" in said.out
    assert "- packing is off" in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "batch-4.log").exists() and not (tmp_path / "batch-2.log").exists()


def test_an_error_for_people_keeps_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "tell('loading the model', message='no model', hint='give one', exit_code=2)")
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2", "--out", tmp_path) == 2


def test_a_wish_to_stop_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, tmp_path, "tell('the rollout'); os.kill(os.getppid(), 15); time.sleep(60)")
    (tmp_path / "bench.json").write_text("an earlier one")
    began = time.monotonic()
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2", "--out", tmp_path) == 128 + signal.SIGTERM
    assert time.monotonic() - began < 30
    assert (tmp_path / "bench.json").read_text() == "an earlier one", "nothing was measured"
    assert not list(tmp_path.glob("batch-*")), "nothing of the size that was stopped is left"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's prctl")
def test_a_worker_does_not_outlive_a_bench_that_is_killed(tmp_path: Path) -> None:
    """It would hold the GPU's memory."""
    child = "from arcslim.cli.bench_worker import end_with_the_parent as end; import os, time; end(); "
    child += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], start_new_session=True)"
    process = subprocess.Popen([sys.executable, "-c", parent])
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    process.kill()
    process.wait()
    place = Path("/proc", (tmp_path / "pid").read_text())
    wait_for(lambda: not place.exists() or "(zombie)" in (place / "status").read_text())


def wait_for(happened: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """Another program in the worker's place, which tells its phase as the worker does."""
    text = (
        "import json, os, sys, time\n"
        "settings, recipe, wish, result = sys.argv[1:]\n"
        "def tell(phase, **more):\n"
        "    open(result + '.new', 'w').write(json.dumps({'phase': phase, **more}))\n"
        "    os.replace(result + '.new', result)\n" + program
    )
    (folder / "worker.py").write_text(text)
    monkeypatch.setattr(bench_process, "WORKER", (sys.executable, str(folder / "worker.py")))


def test_without_matplotlib_there_is_no_picture_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {
        "done": True, "device": "cpu", "samples_per_second": 3.0, "seconds": {"update": 1.0},
        "peaks": {"update": 2**30}, "tokens_per_second": {"prefill": None, "decode": None, "update": 7.0}, "notes": [],
    }  # fmt: skip
    stand_in(monkeypatch, tmp_path, f"tell('the update', **{done})")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "no picture: matplotlib is not installed" in said and not (tmp_path / "bench.png").exists()
    assert f"in {tmp_path}: bench.md, bench.json\n" in said


def test_a_full_disk_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(bench_process, "write_text_atomic", full)
    with pytest.raises(ArcslimError, match="is full"):
        bench.bench(preset="cpu", batch_sizes="2", out=tmp_path)


def test_a_size_that_the_ram_has_no_room_for_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "_free_ram", lambda: 2**30)
    assert arcslim("bench", "--preset", "cpu", "--batch-sizes", "2,4", "--out", str(tmp_path)) == 3
    report = json.loads((tmp_path / "bench.json").read_text())
    assert len(report["sizes"]) == 1 and "not started" in report["sizes"][0]["failed"]
    assert "nothing was measured" in capsys.readouterr().out and not (tmp_path / "bench.png").exists()
    with pytest.raises(DoesNotFitError):
        bench.bench(preset="cpu", batch_sizes="2", out=tmp_path)


@pytest.mark.parametrize("text", ["", "0", "1,x", "1,,2", "-1", "1.5", "5000"])
def test_slips_in_batch_sizes(text: str) -> None:
    with pytest.raises(InputError):
        bench_sizes.read_batches(text)
    assert arcslim("bench", "--preset", "cpu", f"--batch-sizes={text}") == 2


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 48])
def test_every_batch_size_makes_whole_groups(batch: int) -> None:
    config = size(batch).config
    rows = config.optim.per_device_train_batch_size * config.grpo.steps_per_generation
    assert rows == max(batch, 2)
    assert rows % config.grpo.num_generations == 0
    assert config.generation.rollout_batch == batch and config.grpo.num_generations >= 2


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
@pytest.mark.parametrize("preset", [found.name for found in list_presets()])
def test_every_preset_can_be_measured(preset: str, recipe: str) -> None:
    for batch in (1, 2, 6):
        made = bench_sizes.one_size(preset, (), None, recipe, batch, 2)
        assert made.plan.request.setup.micro_batch == batch


def test_sizes_go_up_each_once_and_the_recipe_is_the_presets_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench_sizes.read_batches("8, 1,4,4") == [1, 4, 8]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "_free_ram", lambda: 2**30)
    assert arcslim("bench", "--preset", "olympiccoder-7b") == 3
    assert json.loads((tmp_path / "bench-sft" / "bench.json").read_text())["recipe"] == "sft"


def test_a_peak_is_held_against_the_phases_that_a_bench_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SFT's evaluations on tasks take more than its updates, and a bench has none."""
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    plan = bench_sizes.one_size("4090", (), None, "sft", 1, 1).plan
    most = bench_sizes.planned(plan)
    assert "evaluation" in {phase.name for phase in plan.phases} and set(most) == {"load", "update"}
    assert most["update"] == int(plan.phase("update").gpu_peak - CUDA_CONTEXT)
    assert max(most.values()) < plan.phase("evaluation").gpu_peak - CUDA_CONTEXT
    assert set(bench_sizes.planned(bench_sizes.one_size("4090", (), None, "grpo", 1, 1).plan)) == {
        "load",
        "rollout",
        "update",
    }


def test_a_card_whose_memory_is_not_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090.replace("[N/A]", "Enabled"))
    with pytest.raises(InputError, match="MIG"):
        bench_sizes.one_size("4090", (), None, "grpo", 1, 1)


def test_a_presets_own_sizes_with_as_few_prompts_as_they_allow() -> None:
    made = bench_sizes.one_size("h100", (), None, "grpo", None, 2)
    asked, config = load_config("h100").config, made.config
    assert made.batch == asked.optim.per_device_train_batch_size == 8 and made.drawn_at_once == 32
    assert config.grpo.num_generations == asked.grpo.num_generations == 16
    assert config.grpo.steps_per_generation == 4, "32 rows, two prompts"
    assert config.optim.gradient_accumulation_steps == 2, "two updates a rollout: of three steps two roll out"
    assert config.lora == asked.lora and config.optim.optim == asked.optim.optim
    assert made.plan.request.setup.row == asked.prompt.max_tokens + asked.generation.max_completion_length
    made = bench_sizes.one_size("4090", (), None, "sft", None, 2)
    assert made.batch == 1 and made.config.sft.lora_r == 64 and made.plan.request.setup.row == 16384


def test_of_a_completion_fewer_tokens_can_be_drawn(tmp_path: Path) -> None:
    """Its plan knows it: the rollout is smaller, the update is not."""
    whole = bench_sizes.one_size("4090", (), None, "grpo", None, 2).plan.request.setup
    less = bench_sizes.one_size("4090", (), None, "grpo", None, 2, 64).plan.request.setup
    assert (less.completion, less.row, less.prompt) == (64, whole.row, whole.prompt)
    assert bench_sizes.one_size("4090", (), None, "grpo", None, 2, 10**6).plan.request.setup == whole
    with pytest.raises(InputError, match="vLLM"):
        bench_sizes.one_size("4090", ("model.fast_inference=true",), None, "grpo", None, 2, 64)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_presets_own_sizes_are_run_and_end_in_time(tmp_path: Path) -> None:
    preset, out = write_preset(tmp_path, *SHORT, "generation.rollout_batch=4"), tmp_path / "out"
    words = ("bench", "--preset", preset, "--batch-sizes", "preset", "--draw", 4, "--steps", 40, "--seconds", 1)
    assert arcslim(*map(str, words), "--out", out) == 0
    (row,) = json.loads((out / "bench.json").read_text())["sizes"]
    assert row["steps"] == 1, "after the second there is no time for a third"
    assert (row["batch"], row["drawn_at_once"], row["rows"]) == (8, 4, 8)
    assert (row["drawn_tokens"], row["completion_tokens"]) == (4, 8)


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
        "prompt_tokens": 4096, "completion_tokens": 2048, "drawn_tokens": 128, "row_tokens": 6144, "steps": 2,
        "sizes": [done, {"batch": 2, "planned_bytes": 2**34, "failed": "out of memory in the update"}],
    }  # fmt: skip
    lines = table(report).splitlines()
    assert len({line.count("|") for line in lines}) == 1 and "25%" in lines[2] and "4,000" in lines[2]
    assert "Batch 2: out of memory in the update." in markdown(report)
    assert "2,048 completion tokens, of which 128 are drawn and the rest is made up" in markdown(report)
    assert "medians of 2 steps" in markdown(report | {"sizes": [done | {"steps": 2}]})
    assert "one step after one" in markdown(report | {"sizes": [done | {"steps": 1}]})
    assert table(report | {"sizes": [done | {"drawn_at_once": 16}]}).splitlines()[2].startswith("| 1, 16 drawn |")


def test_on_a_gpu_each_phase_stands_beside_its_plan() -> None:
    row = {
        "batch": 4, "peaks": {"load": 2**30, "prefill": 3 * 2**30, "rollout": 2 * 2**30, "update": 4 * 2**30},
        "planned_peaks": {"load": 2**30, "rollout": 4 * 2**30, "update": 5 * 2**30},
    }  # fmt: skip
    lines = phase_table({"sizes": [row, {"batch": 8, "failed": "out of memory in the update"}]}).splitlines()
    assert lines[0] == "| batch | load | rollout | update |"
    assert lines[2] == "| 4 | 1.00 / 1.00 (100%) | 3.00 / 4.00 (75%) | 4.00 / 5.00 (80%) |"
    assert phase_table({"sizes": [{"batch": 1, "peaks": {"load": 1}}]}) == "", "on a CPU they are not told apart"


def test_sft_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("bench", "--preset", "cpu", "--recipe", "sft", "--draw", 8, "--batch-sizes", "1") == 2
    assert "--draw is of a rollout" in capsys.readouterr().err

"""`arcslim prefetch` against a hub on this machine, through the real huggingface_hub, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arcslim.policy.weights import weights_repository
from arcslim.presets import load_config
from arcslim.runs.prefetch import wanted_of
from tests.runs.fake_hub import FakeHub, fake_hub

QWEN = "Qwen/Qwen2.5-7B-Instruct"
PACKED = "unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit"
PRESET = ("--preset", "4090", "--model", QWEN)  # the preset says that it is for a GPU
TEXTS = {"config.json": b"{}", "tokenizer.json": b"{}", "README.md": b"#", "merges.txt": b"a b"}
BIG = bytes(range(256)) * 4096 * 24  # huggingface_hub writes 10 MiB at a time


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as made:
        made.repositories[f"models/{QWEN}"] = TEXTS | {
            "model.safetensors": b"too large",
            "model.safetensors.index.json": b"{}",
        }
        made.repositories[f"models/{PACKED}"] = TEXTS | {"model.safetensors": BIG, "model.gguf": b"no"}
        yield made


def prefetch(hub: FakeHub | None, home: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    # Unsloth, imported by another test of this process, leaves settings of the hub behind.
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_", "UNSLOTH_"))
    }
    environment = inherited | {
        "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "COLUMNS": "150", "NO_COLOR": "1",
        "HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:9", "HF_HUB_ETAG_TIMEOUT": "5", **variables,
    }  # fmt: skip
    environment.pop("HF_TOKEN", None)
    line = [sys.executable, "-m", "arcslim", "prefetch", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, re.sub(r"[ \t]+", " ", done.stdout), done.stderr


def cached(home: Path, name: str) -> set[str]:
    return {path.name for path in (home / "hub" / f"models--{name.replace('/', '--')}").glob("snapshots/*/*")}


def test_what_a_run_loads_is_fetched_with_a_progress_bar_and_once(hub: FakeHub, tmp_path: Path) -> None:
    code, out, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 0, err
    assert PACKED in out and "all of it is in the cache" in out and "GiB free at" in out
    assert "100%" in err, "there is a progress bar"
    assert cached(tmp_path, PACKED) == {"config.json", "tokenizer.json", "merges.txt", "model.safetensors"}
    assert cached(tmp_path, QWEN) == {"config.json", "tokenizer.json", "merges.txt"}, "its 16-bit weights are not used"
    reads = len(hub.ranges)
    code, out, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 0 and "all of it is in the cache" in out and len(hub.ranges) == reads


def test_a_line_that_drops_is_taken_up_where_it_was(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut_after, hub.cuts = 15 * 2**20, 1
    code, _, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 0, err
    assert [start for name, start in hub.ranges if name == "model.safetensors"] == [0, 10 * 2**20]
    (file,) = (tmp_path / "hub" / f"models--{PACKED.replace('/', '--')}").glob("snapshots/*/model.safetensors")
    assert file.read_bytes() == BIG


def test_a_line_that_stays_away_costs_the_file_and_not_the_others(hub: FakeHub, tmp_path: Path) -> None:
    files = hub.repositories[f"models/{PACKED}"]
    files["model-2.safetensors"] = BIG[: 12 * 2**20]
    hub.cut_after = 15 * 2**20
    code, _, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 1 and "could not be fetched" in err and "the same command fetches the others" in err
    assert "Traceback" not in err
    assert "model-2.safetensors" in cached(tmp_path, PACKED)
    hub.cut_after, hub.ranges[:] = None, []
    code, _, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 0, err
    assert "model-2.safetensors" not in {name for name, _ in hub.ranges}
    assert cached(tmp_path, PACKED) >= {"model.safetensors", "model-2.safetensors"}


def test_a_dry_run_fetches_nothing(hub: FakeHub, tmp_path: Path) -> None:
    code, out, _ = prefetch(hub, tmp_path, *PRESET, "--dry-run")
    assert code == 0 and "to fetch" in out
    assert hub.ranges == [] and cached(tmp_path, PACKED) == set()


def test_a_disk_that_is_too_small_is_seen_before(hub: FakeHub, tmp_path: Path) -> None:
    hub.sizes["model.safetensors"] = 900 * 1024**4
    code, _, err = prefetch(hub, tmp_path, *PRESET)
    assert code == 3 and "GiB are missing" in err and "HF_HOME" in err
    assert hub.ranges == []


def test_a_gated_model(hub: FakeHub, tmp_path: Path) -> None:
    hub.repositories["models/some/gated"] = dict(TEXTS)
    hub.gated.add("models/some/gated")
    code, _, err = prefetch(hub, tmp_path, "--model", "some/gated")
    assert code == 2 and "some/gated is gated" in err and "accept its licence at" in err and "HF_TOKEN" in err


def test_a_model_or_revision_that_is_not_there(hub: FakeHub, tmp_path: Path) -> None:
    code, _, err = prefetch(hub, tmp_path, "--model", "some/nothing")
    assert code == 2 and "the hub has no model some/nothing" in err
    code, _, err = prefetch(hub, tmp_path, "--model", QWEN, "--set", "model.revision=nope")
    assert code == 2 and "no revision 'nope'" in err


def test_offline(tmp_path: Path) -> None:
    code, _, err = prefetch(None, tmp_path, *PRESET, HF_HUB_OFFLINE="1")
    assert code == 2 and "HF_HUB_OFFLINE is set" in err
    code, _, err = prefetch(None, tmp_path, *PRESET)
    assert code == 1 and "could not be fetched from http://127.0.0.1:9: [Errno 111]" in err and "Traceback" not in err


def test_an_adapter_brings_the_model_under_it(hub: FakeHub, tmp_path: Path) -> None:
    hub.repositories["models/some/adapter"] = {
        "adapter_config.json": json.dumps({"base_model_name_or_path": "some/base", "r": 8}).encode(),
        "adapter_model.safetensors": b"a",
    }
    hub.repositories["models/some/base"] = TEXTS | {"pytorch_model.bin": b"older"}
    code, _, err = prefetch(hub, tmp_path, "--model", "some/adapter")
    assert code == 0, err
    assert cached(tmp_path, "some/adapter") == {"adapter_config.json", "adapter_model.safetensors"}
    assert "pytorch_model.bin" in cached(tmp_path, "some/base"), "where there are no safetensors"


def test_an_adapter_on_an_embedded_or_random_model_needs_no_other(hub: FakeHub, tmp_path: Path) -> None:
    for number, base in enumerate(("tiny", "random:Qwen2.5-0.5B")):
        name = f"some/adapter{number}"
        hub.repositories[f"models/{name}"] = {
            "adapter_config.json": json.dumps({"base_model_name_or_path": base}).encode()
        }
        code, out, err = prefetch(hub, tmp_path, "--model", name)
        assert code == 0 and "all of it is in the cache" in out, err


def test_a_data_set_is_read_from_here_afterwards(hub: FakeHub, tmp_path: Path) -> None:
    """And then the run needs no network."""
    rows = "".join(json.dumps({"prompt": f"p{n}", "completion": f"c{n}"}) + "\n" for n in range(3))
    hub.repositories["datasets/some/Traces"] = {"train.jsonl": rows.encode(), "README.md": b"#"}
    words = ("--model", "tiny", "--recipe", "sft", "--data", "hub:some/Traces")
    code, out, err = prefetch(hub, tmp_path, *words)
    assert code == 0, err
    assert "tiny needs no download" in out and "some/Traces" in out
    reads = len(hub.ranges)
    code = (
        "from arcslim.tasks.hub import hub_rows, is_prepared\n"
        "assert is_prepared('some/Traces') and not is_prepared('some/Other')\n"
        "print([row['prompt'] for row in hub_rows('some/Traces', wrong='w', hint='h')])"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": hub.url}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "['p0', 'p1', 'p2']", done.stderr
    assert len(hub.ranges) == reads


def test_nothing_to_fetch_is_a_slip(tmp_path: Path) -> None:
    code, _, err = prefetch(None, tmp_path)
    assert code == 2 and "--preset" in err


def test_what_needs_no_download_says_so(tmp_path: Path) -> None:
    code, out, _ = prefetch(None, tmp_path, "--preset", "cpu")
    assert code == 0 and "tiny needs no download" in out
    wanted, notes = wanted_of(load_config("cpu", ["data.sources=['barc']"]).config, "grpo", on_gpu=False)
    assert wanted == [] and any("barc is streamed" in note for note in notes)


def test_her_fetches_her_own_model_and_no_data() -> None:
    config = load_config("4090", ["data.sources=['barc']"]).config
    for recipe in ("her", "her-pretrain"):
        wanted, notes = wanted_of(config, recipe, on_gpu=True)
        assert [one.name.partition("/")[2] for one in wanted] == ["Qwen2.5-Coder-0.5B-Instruct"] * 2
        assert "16-bit weights" in wanted[0].why and notes == []


def test_a_machine_without_a_gpu_says_for_whom_it_fetches(hub: FakeHub, tmp_path: Path) -> None:
    code, out, err = prefetch(hub, tmp_path, "--model", QWEN, "--set", "model.load_in_4bit=true", "--dry-run")
    assert code == 0, err
    assert "for a machine without a GPU, as this one" in " ".join(out.split())
    assert "for a machine without" not in prefetch(hub, tmp_path, *PRESET, "--dry-run")[1]


# Which repository -------------------------------------------------------------------------------------------------

NAMES = (
    QWEN, "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "unsloth/Qwen2.5-7B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B",
    "HuggingFaceTB/SmolLM2-135M-Instruct", "someone/unheard-of",
)  # fmt: skip


@pytest.mark.slow
def test_weights_come_from_where_unsloth_loads_them(tmp_path: Path) -> None:
    """Held against Unsloth's own function, which its loader calls on a GPU."""
    code = (
        "import json, unsloth\n"
        "from unsloth.models.loader_utils import get_model_name\n"
        f"names = {NAMES!r}\n"
        "print(json.dumps([[get_model_name(n, load_in_4bit=four) for four in (True, False)] for n in names]))"
    )
    environment = os.environ | {"UNSLOTH_ALLOW_CPU": "1", "HF_HUB_OFFLINE": "1", "UNSLOTH_DISABLE_STATISTICS": "1"}
    line = [sys.executable, "-c", code]  # it leaves a folder where it runs
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = [[weights_repository(name, four_bit=four, on_gpu=True) for four in (True, False)] for name in NAMES]
    assert ours == theirs


def test_packed_weights_for_4_bits_a_mirror_for_16_and_as_named_on_a_cpu() -> None:
    assert weights_repository(QWEN, four_bit=True, on_gpu=True) == PACKED
    assert weights_repository(QWEN, four_bit=False, on_gpu=True) == "unsloth/Qwen2.5-7B-Instruct"
    assert weights_repository(QWEN, four_bit=True, on_gpu=False) == QWEN
    assert weights_repository("Qwen/Qwen3-32B", four_bit=True, on_gpu=True) == "unsloth/Qwen3-32B-bnb-4bit"
    assert weights_repository("someone/unheard-of", four_bit=True, on_gpu=True) == "someone/unheard-of"

"""``environment.json`` says what a run ran on, and no secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.runs.environment import VARIABLES, environment, git_commit
from arcslim.runs.redact import HIDDEN, redact, redact_arguments

HEX40 = "0123456789abcdef0123456789abcdef01234567"


def test_what_is_recorded() -> None:
    record = environment(world_size=2, argv=["arcslim", "grpo"])
    json.dumps(record)
    assert record["world_size"] == 2
    assert record["packages"]["torch"]
    assert record["packages"]["numpy"]
    assert record["cpu"]["threads"] >= 1
    assert record["ram_bytes"] > 2**28
    assert (record["gpus"] is None) == (record["gpu_note"] is not None)


def test_of_the_variables_an_allow_list_alone_is_kept() -> None:
    variables = {"HF_TOKEN": "hf_secretsecret", "AWS_SECRET_ACCESS_KEY": "x", "OMP_NUM_THREADS": "1", "MY_NOTE": "y"}
    record = environment(world_size=1, argv=[], variables=variables)
    assert record["variables"] == {"OMP_NUM_THREADS": "1"}
    assert "secretsecret" not in json.dumps(record)
    assert not [name for name in VARIABLES if "TOKEN" in name or "KEY" in name]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from arcslim.runs import environment as e, folder, trackers, signals; e.environment(world_size=1);"
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'unsloth') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_tree_that_is_not_ours_gives_no_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert git_commit(tmp_path) is None


@pytest.mark.parametrize(
    "secret",
    [
        "hf_abcdefghijklmnopqrstuvwx",
        "ghp_" + "a1" * 18,
        "sk-proj-" + "a1B2" * 8,
        HEX40,
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_a_token_is_hidden_by_its_form(secret: str) -> None:
    assert secret not in redact(f"downloading with {secret} failed")
    assert secret not in redact_arguments(["arcslim", f"--set=x.y={secret}"])[1]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--hf-token", "abc", "--seed", "3"], ["--hf-token", HIDDEN, "--seed", "3"]),
        (["--api-key=abc"], [f"--api-key={HIDDEN}"]),
        (["https://me:pw@host/x"], [f"https://{HIDDEN}@host/x"]),
        (["WANDB_API_KEY=abc"], [f"WANDB_API_KEY={HIDDEN}"]),
    ],
)
def test_a_secret_is_hidden_by_its_name(arguments: list[str], shown: list[str]) -> None:
    assert redact_arguments(arguments) == shown


@pytest.mark.parametrize(
    "harmless",
    [
        "prompt.max_tokens=4096",
        "reward.min_thinking.min_tokens=40",
        "--max-steps=500",
        f"model.revision={HEX40}",
        "unsloth/Qwen2.5-7B-Instruct-bnb-4bit",
        "tokens/prompt",
        "rearc:67a3c6ac,68b16354=0.5",
        "checkpoint-500 is half written (optimizer.pt is cut short)",
    ],
)
def test_what_is_no_secret_stays(harmless: str) -> None:
    assert redact(harmless) == harmless

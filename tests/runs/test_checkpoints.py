"""Whole and half-written checkpoints, told apart without torch. Case 24's ground."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from arcslim.runs.checkpoints import inspect_checkpoint, safetensors_fault
from tests.runs.made import make_checkpoint


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_file({"a": np.ones((3, 4), np.float32), "b": np.zeros((2,), np.float16)}, path, {"format": "pt"})
    return path.read_bytes()


def test_whole(tmp_path: Path) -> None:
    assert inspect_checkpoint(make_checkpoint(tmp_path, 7)).fault is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_weights_cut_at_any_byte_are_not_whole(tmp_path: Path, weights: bytes, data: st.DataObject) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(weights)
    assert safetensors_fault(path) is None
    path.write_bytes(weights[: data.draw(st.integers(0, len(weights) - 1))])
    assert safetensors_fault(path) is not None


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("adapter_model.safetensors", None, "is there"),
        ("adapter_model.safetensors", b"", "is empty"),
        ("adapter_model.safetensors", b"\xff" * 30, "cut short"),
        ("adapter_model.safetensors", (2).to_bytes(8, "little") + b"{}", "no tensors"),
        ("trainer_state.json", None, "missing"),
        ("trainer_state.json", b"", "cannot be read"),
        ("trainer_state.json", b'{"global_step": 7, "log_hi', "cannot be read"),
        ("trainer_state.json", b'{"global_step": 6}', "not of step 7"),
        ("optimizer.pt", None, "optimizer's state is missing"),
        ("optimizer.pt", b"", "optimizer.pt is empty"),
        ("scheduler.pt", None, "scheduler.pt is missing"),
        ("rng_state.pth", None, "random state"),
        ("reward.json", None, "reward.json is missing"),
    ],
)
def test_each_half_written_form_is_named(tmp_path: Path, name: str, content: bytes | None, fault: str) -> None:
    path = make_checkpoint(tmp_path, 7, extra=("reward.json",))
    assert inspect_checkpoint(path, ("reward.json",)).fault is None
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(content)
    found = inspect_checkpoint(path, ("reward.json",)).fault
    assert found is not None
    assert fault in found


def test_sharded_weights_need_every_shard(tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path, 3)
    (path / "adapter_model.safetensors").rename(path / "model-00001-of-00002.safetensors")
    index = '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    (path / "model.safetensors.index.json").write_text(index)
    assert inspect_checkpoint(path).fault == "model-00002-of-00002.safetensors is missing"
    save_file({"b": np.ones(2, np.float32)}, path / "model-00002-of-00002.safetensors")
    assert inspect_checkpoint(path).fault is None


def test_torch_writes_what_is_taken_for_whole_and_a_cut_is_seen(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = make_checkpoint(tmp_path, 7)
    torch.save({"state": {0: torch.zeros(1000)}, "param_groups": []}, path / "optimizer.pt")
    assert inspect_checkpoint(path).fault is None
    whole = (path / "optimizer.pt").read_bytes()
    for size in (1, len(whole) // 2, len(whole) - 1):
        (path / "optimizer.pt").write_bytes(whole[:size])
        assert inspect_checkpoint(path).fault == "optimizer.pt is cut short"

"""The GPUs of a machine, by an ``nvidia-smi`` that says what a test wants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from arcslim.runs import asking
from arcslim.runs.gpus import GPU_FIELDS, card_of, gpu_list, used_gpu
from tests.runs.made import RTX_4090, fake_smi


def test_cards_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    cards, note = gpu_list()
    assert note is None
    assert cards is not None
    assert cards[0]["name"] == "NVIDIA GeForce RTX 4090"
    assert cards[0]["memory.total"] == "24564 MiB"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'cannot talk to the driver' >&2; exit 9", "cannot talk to the driver"),
        ("exec sleep 30", "no answer"),
        ("echo 'No devices were found'", "no card"),
    ],
)
def test_a_broken_driver_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    monkeypatch.setattr(asking, "TIMEOUT", 0.5)
    fake_smi(tmp_path, monkeypatch, script=script)
    cards, note = gpu_list()
    assert cards is None
    assert note is not None
    assert reason in note


def gpu(name: str, mib: int, uuid: str = "GPU-0", mig: str = "[N/A]") -> dict[str, str]:
    said = {"name": name, "memory.total": f"{mib} MiB", "uuid": uuid, "mig.mode.current": mig}
    return dict.fromkeys(GPU_FIELDS, "[N/A]") | said


@pytest.mark.parametrize(
    ("name", "mib", "known"),
    [
        ("NVIDIA GeForce RTX 4090", 24564, "RTX 4090"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100 80GB"),
        ("NVIDIA H100 PCIe", 81559, "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", 81920, "A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", 40960, "A100 40GB"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "RTX 6000 Ada"),
        ("Tesla T4", 15360, "T4"),
        ("NVIDIA L40S", 46068, "L40S"),
        ("NVIDIA L4", 23034, "L4"),
        ("NVIDIA H200", 143771, "H200"),
    ],
)
def test_a_known_card_is_known(name: str, mib: int, known: str) -> None:
    card = card_of(gpu(name, mib))
    assert card is not None and card.name == known and card.bandwidth
    assert 0.94 < card.usable_gib / (mib / 1024) <= 1


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376),  # another card of that name
        ("NVIDIA GeForce RTX 4080 SUPER", 16376),
        ("NVIDIA GeForce RTX 4090", 49140),  # the memory of two
        ("NVIDIA Something New", 65536),
    ],
)
def test_another_card_has_its_memory_and_no_bandwidth(name: str, mib: int) -> None:
    card = card_of(gpu(name, mib))
    assert card is not None and card.name == name and card.bandwidth is None
    assert card.usable_gib == pytest.approx(mib / 1024, rel=0.02) and card.usable_gib < mib / 1024


def test_a_card_without_a_size_is_not_guessed() -> None:
    assert card_of(gpu("NVIDIA GB10", 0) | {"memory.total": "[N/A]"}) is None


TWO = [gpu("NVIDIA L4", 23034, "GPU-aaaa"), gpu("NVIDIA L4", 23034, "GPU-bbbb")]
MIXED = [gpu("NVIDIA L4", 23034, "GPU-aaaa"), gpu("Tesla T4", 15360, "GPU-bbbb")]


@pytest.mark.parametrize(
    ("cards", "variables", "uuid"),
    [
        (TWO, {}, "GPU-aaaa"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "1,0"}, "GPU-bbbb"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "GPU-b"}, "GPU-bbbb"),
        (MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "GPU-aaaa"),
    ],
)
def test_the_card_that_is_used(cards: list[dict[str, str]], variables: Mapping[str, str], uuid: str) -> None:
    found, why = used_gpu(cards, variables)
    assert found is not None and found["uuid"] == uuid and why is None


@pytest.mark.parametrize(
    ("cards", "variables", "reason"),
    [
        (TWO, {"CUDA_VISIBLE_DEVICES": ""}, "leaves no card"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "-1"}, "leaves no card"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "2"}, "leaves no card"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "MIG-1"}, "leaves no card"),
        (MIXED, {}, "several kinds"),
        ([gpu("NVIDIA H100 80GB HBM3", 81559, mig="Enabled")], {}, "split (MIG)"),
    ],
)
def test_a_card_that_is_not_known_is_said_to_be(
    cards: list[dict[str, str]], variables: Mapping[str, str], reason: str
) -> None:
    found, why = used_gpu(cards, variables)
    assert found is None and why is not None and reason in why

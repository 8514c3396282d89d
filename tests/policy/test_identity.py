"""The same weights have the same identity wherever they lie; other weights, or other bits, have another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import arcslim.policy.identity as module
from arcslim.config import ModelSection
from arcslim.errors import ModelError
from arcslim.policy.identity import identity
from arcslim.policy.sources import tiny_folder


def of(name: object, **values: object) -> str | None:
    return identity(ModelSection(name=str(name), **values))  # type: ignore[arg-type]


def adapter(folder: Path, weights: bytes, base: str = "tiny") -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return folder


def test_a_copy_is_the_same_and_a_changed_byte_is_not(tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(tiny_folder(), copied)
    assert of(copied) == of("tiny") is not None
    assert of("tiny", load_in_4bit=False) != of("tiny", load_in_4bit=True)
    (weights,) = copied.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert of(copied) != of("tiny")


def test_an_adapter_is_its_weights_and_its_base(tmp_path: Path) -> None:
    first, same = adapter(tmp_path / "a", b"weights"), adapter(tmp_path / "b", b"weights")
    other = adapter(tmp_path / "c", b"other")
    copied = tmp_path / "base"
    shutil.copytree(tiny_folder(), copied)
    with next(copied.glob("*.safetensors")).open("ab") as file:
        file.write(b"x")
    on_another_base = adapter(tmp_path / "d", b"weights", str(copied))
    found = {of(first), of(other), of(on_another_base), of("tiny")}
    assert len(found) == 4 and of(same) == of(first)


def test_of_a_large_file_samples_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 1000)
    monkeypatch.setattr(module, "SAMPLE", 16)
    large = bytes(range(256)) * 64
    one, same = adapter(tmp_path / "a", large), adapter(tmp_path / "b", large)
    trained = adapter(tmp_path / "c", bytes(byte ^ 1 for byte in large))
    longer = adapter(tmp_path / "d", large + b"\0")
    assert of(one) == of(same)
    assert len({of(one), of(trained), of(longer)}) == 3


def test_the_hub_is_known_by_its_commit_once_it_is_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    commits = {None: None, "main": "/cache/models--a--b/snapshots/c0ffee/config.json"}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file, revision: commits[revision])
    assert of("a/b") is None
    assert of("a/b", revision="main") is not None != of("a/c", revision="main")
    assert of("a/b", revision="main") != of("a/c", revision="main")


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        of(tmp_path)

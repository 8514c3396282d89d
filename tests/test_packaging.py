"""The wheel: what a user installs holds the presets and the embedded model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from arcslim.presets import list_presets, presets_folder

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*build, "-w", str(folder), str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_a_wheel_lists_the_same_presets_as_the_checkout(installed: Path) -> None:
    assert presets_folder() == ROOT / "presets"
    code = "from arcslim.presets import *\nprint(presets_folder())\nprint([preset.name for preset in list_presets()])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    folder, names = done.stdout.splitlines()
    assert folder == str(installed / "arcslim" / "_presets")
    assert names == str([preset.name for preset in list_presets()])


def test_a_wheel_holds_every_file_of_the_package(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(folder).as_posix() for path in found}

    shipped = {name for name in files(installed / "arcslim") if not name.startswith(("_presets/", "_constraints/"))}
    assert shipped == files(ROOT / "arcslim")
    assert "policy/tiny/model.safetensors" in shipped
    assert "py.typed" in shipped
    for name in ("constraints.txt", "constraints-vllm.txt"):  # what `arcslim doctor` holds versions against
        assert (installed / "arcslim" / "_constraints" / name).read_text() == (ROOT / name).read_text()


def test_the_whole_stack_is_pinned_without_hosts_or_paths() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[^\s@/]+", pin) for pin in pins)
    names = {pin.split("==")[0] for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(need for extra in extras if extra != "vllm" for need in extras[extra])]
    missing = {re.split(r"[<>=!~\[ ]", need)[0].lower().replace("_", "-") for need in wanted} - names
    assert missing == set()

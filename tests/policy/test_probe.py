"""What `arcslim doctor` tries for real, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from arcslim.runs import doctor_stack
from arcslim.runs.check import BROKEN, OK


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return doctor_stack.probe()


def test_every_part_is_tried(found: dict[str, dict[str, Any]]) -> None:
    assert list(found) == ["torch", "bitsandbytes", "xformers", "triton", "flash_attn"]
    assert doctor_stack.check_torch(found).state == OK
    checks = [doctor_stack.check_xformers(found), doctor_stack.check_triton(found), doctor_stack.check_flash(found)]
    assert all(check.state == OK for check in checks), checks


def test_four_bits_go_forward_and_backward(found: dict[str, dict[str, Any]]) -> None:
    facts = found["bitsandbytes"]
    assert facts["native"] and facts["forward_error"] < 0.01 and facts["backward_error"] < 0.01
    assert 0.05 < facts["packing_error"] < 0.15, "it was packed to 4 bits at all"
    assert doctor_stack.check_bitsandbytes(found).state == OK


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("raise ImportError('libcudart.so.13: cannot open shared object file')\n", "libcudart.so.13"),
        ("import os; os.abort()\n", "it ended the process (exit code -6)"),
    ],
)
def test_a_broken_bitsandbytes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    """Issue 6, must show 5: planted as a package that comes first on the path."""
    (tmp_path / "bitsandbytes").mkdir()
    (tmp_path / "bitsandbytes" / "__init__.py").write_text(package)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor_stack.check_bitsandbytes(doctor_stack.probe())
    assert check.state == BROKEN and said in check.found and check.mend is not None


def test_a_native_library_that_is_no_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 6, must show 5: the package as it is; its compiled files overwritten, which Python's kernels would hide."""
    source = Path(str(metadata.distribution("bitsandbytes").locate_file("bitsandbytes")))
    shutil.copytree(source, tmp_path / "bitsandbytes", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for library in source.glob("*.so"):
        (tmp_path / "bitsandbytes" / library.name).write_text("no library\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor_stack.check_bitsandbytes(doctor_stack.probe())
    assert check.state == BROKEN and "its native library does not load" in check.found
    assert "--force-reinstall" in str(check.mend)


def test_what_a_library_prints_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python, and past Python as C does."""
    (tmp_path / "flash_attn").mkdir()
    program = "import os; print('hello'); os.write(1, b'hello from C\\n'); __version__ = '9.9'\n"
    (tmp_path / "flash_attn" / "__init__.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor_stack.check_flash(doctor_stack.probe())
    assert check.state == OK and check.found == "9.9"


def test_a_probe_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import time; time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor_stack.probe(seconds=10)
    assert "no answer in 10 s" in doctor_stack.check_torch(found).found
    assert doctor_stack.check_bitsandbytes(found).state == BROKEN


def test_the_kernel_adds() -> None:
    """By Triton's interpreter, on the CPU: that it compiles is seen on a GPU alone."""
    code = "from arcslim.policy.probe_kernel import adds; print(adds('cpu'))"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "True", done.stderr

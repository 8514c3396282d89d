"""What `arcslim doctor` tries for real, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
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

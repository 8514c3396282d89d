"""`arcslim doctor`: a fault is planted, and its line looked for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from arcslim.cli.doctor import room_of, show, worst
from arcslim.policy.weights import weights_repository
from arcslim.presets import load_config
from arcslim.runs import doctor, doctor_machine, doctor_stack
from arcslim.runs.check import BROKEN, DOUBTFUL, GIB, OK, Check
from arcslim.runs.doctor_machine import Room
from tests.recipes.made import arcslim
from tests.runs.made import RTX_4090, fake_smi

Usage = namedtuple("Usage", "total used free")
TORCH = {
    "version": "2.14.1+cu130", "cuda": "13.0", "available": True, "name": "NVIDIA GeForce RTX 4090",
    "capability": [8, 9], "bf16": True,
}  # fmt: skip


def with_disk(monkeypatch: pytest.MonkeyPatch, free: float, total: float = 100 * GIB) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(int(total), int(total - free), int(free)))


# The machine ------------------------------------------------------------------------------------------------------


def test_no_compiler_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor_machine.check_compiler(needed=True)
    assert check.state == BROKEN and "none on the PATH" in check.found and "apt-get install gcc" in str(check.mend)
    assert doctor_machine.check_compiler(needed=False).state == DOUBTFUL


@pytest.mark.parametrize(
    ("script", "said", "mend"),
    [
        ("echo 'stub.c:1:10: fatal error: Python.h: No such file' >&2; exit 1", "Python.h", "python3-dev"),
        ("echo 'cannot execute cc1' >&2; exit 1", "cannot execute cc1", "gcc"),
    ],
)
def test_a_compiler_that_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str, mend: str
) -> None:
    program = tmp_path / "mycc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    check = doctor_machine.check_compiler(needed=True)
    assert check.state == BROKEN and said in check.found and mend in str(check.mend)


def test_the_compiler_is_the_one_that_triton_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton looks for gcc, then clang: a cc alone does not help it."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("cc", "clang", "gcc"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
        found = doctor_machine.check_compiler(needed=True).found
        assert found.startswith("none on the PATH" if name == "cc" else f"{tmp_path / name},")
    build = Path(str(metadata.distribution("triton").locate_file("triton/runtime/build.py"))).read_text()
    assert "cc = gcc if gcc is not None else clang" in build, "Triton's order is another one by now"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")
def test_this_machines_compiler_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    check = doctor_machine.check_compiler(needed=True)
    assert check.state == OK or "Python.h" in check.found


@pytest.mark.parametrize(("free", "state"), [(0.2, BROKEN), (3, DOUBTFUL), (40, OK)])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, state: str) -> None:
    with_disk(monkeypatch, free * GIB)
    check = doctor_machine.check_disk("hub cache", tmp_path / "not" / "yet", 16 * GIB, move="HF_HOME")
    assert check.state == state and f"{free:.1f} GiB free" in check.found
    assert check.mend is None or "HF_HOME" in check.mend
    sure = doctor_machine.check_disk("hub cache", tmp_path, 16 * GIB, sure=True, move="HF_HOME")
    assert sure.state == (OK if free > 16 else BROKEN)
    assert doctor_machine.check_disk("hub cache", tmp_path, 0, sure=True, move="HF_HOME").state == OK, "nothing is"


def can_mount() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a tmpfs")
@pytest.mark.parametrize(("options", "said"), [("size=2m", "0.0 GiB free"), ("ro", "cannot be written")])
def test_a_disk_that_really_is_full_or_read_only(tmp_path: Path, options: str, said: str) -> None:
    """Issue 6, must show 5: a tmpfs of 2 MB, and one that is read-only, mounted for this one process."""
    code = (
        "import sys; from pathlib import Path; from arcslim.runs.doctor import quick_checks\n"
        "for check in quick_checks(Path(sys.argv[1], 'runs')): print(check.state, check.name, check.found)"
    )
    mounted = 'mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" -c "$4" "$2"'
    line = ["unshare", "-m", "sh", "-c", mounted, "sh", options, str(tmp_path), sys.executable, code]
    environment = os.environ | {"HF_HOME": str(tmp_path / "hf")}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    broken = [row for row in done.stdout.splitlines() if row.startswith("broken")]
    assert len(broken) == 2 and all(said in row for row in broken), done.stdout
    assert broken[0].startswith("broken hub cache") and broken[1].startswith("broken run folder")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    check = doctor_machine.check_disk("run folder", tmp_path, 1, move="--run-dir")
    assert check.state == BROKEN and "cannot be written" in check.found


def test_little_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_disk(monkeypatch, 2**26, total=2**26)
    check = doctor_machine.check_shared(tmp_path)
    assert check.state == DOUBTFUL and "--ipc=host" in str(check.mend)
    assert doctor_machine.check_shared(tmp_path / "none").state == DOUBTFUL


def built_for(monkeypatch: pytest.MonkeyPatch, cuda: str | None) -> None:
    monkeypatch.setattr(doctor_machine, "torch_build", lambda: {"version": "2.14.1", "cuda": cuda})


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [("580.95", "13.0", OK), ("560.35.03", "13.0", BROKEN), ("560.35.03", "12.8", OK), ("580.95", None, BROKEN)],
)
def test_a_driver_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, cuda: str | None, state: str
) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090.replace("580.95", driver))
    built_for(monkeypatch, cuda)
    check = doctor_machine.check_driver()
    assert check.state == state and driver in check.found
    assert (driver, cuda, "580 or newer" in check.found) in {
        ("580.95", "13.0", False), ("560.35.03", "13.0", True), ("560.35.03", "12.8", False), ("580.95", None, False),
    }  # fmt: skip


def test_the_cuda_of_this_torch_is_read_without_importing_it() -> None:
    build = doctor_machine.torch_build()
    assert build is not None and build["version"] is not None
    assert build["version"].partition("+")[0] == metadata.version("torch")
    assert build["cuda"] is None or build["cuda"].replace(".", "") in build["version"]


def test_no_gpu_is_doubtful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, script="echo 'no driver' >&2; exit 9")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    assert doctor_machine.check_driver().state == DOUBTFUL
    monkeypatch.setattr(Path, "exists", lambda self: True)  # /dev/nvidia0 is there: a container without the driver
    check = doctor_machine.check_driver()
    assert check.state == BROKEN and "--gpus all" in str(check.mend)


def test_what_already_uses_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = RTX_4090.replace("412 MiB", "9000 MiB")
    script = f"case \"$*\" in *compute-apps*) echo '4242, /usr/bin/python3, 8600 MiB';; *) echo '{card}';; esac"
    fake_smi(tmp_path, monkeypatch, script=script)
    check = doctor_machine.check_gpu()
    assert check is not None and check.state == DOUBTFUL
    assert "RTX 4090, 24.0 GiB, 8.8 in use by 4242 python3 8600 MiB" in check.found
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    check = doctor_machine.check_gpu()
    assert check is not None and check.state == OK
    fake_smi(tmp_path, monkeypatch, RTX_4090.replace(" 8.9,", " 7.5,"))
    check = doctor_machine.check_gpu()
    assert check is not None and "no bf16" in check.found


def test_the_hub_is_waited_for_no_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        check = doctor_machine.check_hub(seconds=0.5)
    assert check.state == DOUBTFUL and ("no answer" in check.found or "timed out" in check.found)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert doctor_machine.check_hub().state == OK


def test_a_name_look_up_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-outs of sockets do not hold for it."""
    from huggingface_hub import constants

    def hangs(*_: Any, **__: Any) -> Any:
        time.sleep(4)
        raise OSError("never")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    began = time.monotonic()
    check = doctor_machine.check_hub(seconds=0.5)
    assert time.monotonic() - began < 3 and check.state == DOUBTFUL and "no answer in 0.5 s" in check.found


@pytest.mark.parametrize(("status", "state"), [(200, OK), (403, OK), (503, DOUBTFUL)])
def test_an_answer_of_the_hub(monkeypatch: pytest.MonkeyPatch, status: int, state: str) -> None:
    from huggingface_hub import constants

    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_HEAD(self) -> None:
            asked.append(str(self.headers))
            self.send_response(status)
            self.end_headers()

    monkeypatch.setenv("HF_TOKEN", "hf_" + "abcdefghij" * 3)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        check = doctor_machine.check_hub()
        server.shutdown()
    assert check.state == state and "127.0.0.1" in check.found, check
    assert len(asked) == 1 and "hf_" not in asked[0], "no token is sent for this"


def test_a_login_in_the_hubs_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://user:geheim@127.0.0.1:1")
    check = doctor_machine.check_hub(seconds=1)
    assert check.state == DOUBTFUL and "geheim" not in str(check) and "127.0.0.1:1 is out of reach" in check.found


def test_tokens_are_present_and_never_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hf_" + "abcdefghij" * 3
    monkeypatch.setenv("HF_TOKEN", secret)
    monkeypatch.setenv("WANDB_API_KEY", secret)
    check = doctor_machine.check_tokens()
    assert "Hugging Face yes, W&B yes" in check.found and secret not in str(check)
    made = doctor.record(tmp_path, world_size=1, recipe="grpo", argv=["arcslim"])
    assert made["tokens_present"] == {"hub": True, "wandb": True} and secret not in json.dumps(made)
    assert doctor_machine.tokens_present({"HOME": str(tmp_path), "HF_HOME": str(tmp_path)}) == {
        "hub": False,
        "wandb": False,
    }


# The stack --------------------------------------------------------------------------------------------------------


def test_torch_that_does_not_see_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    blind = TORCH | {"available": False, "error": "CUDA driver initialization failed"}
    check = doctor_stack.check_torch({"torch": blind})
    assert check.state == BROKEN and "initialization failed" in check.found
    assert doctor_stack.check_torch({"torch": TORCH}).state == OK


XFORMERS = {
    "installed": True, "version": "0.0.35", "own_extension": False, "built_for": "2.10.0+cu128",
    "operators": ["cutlassF-pt", "fa2F@2.5.7-pt"],
}  # fmt: skip
RIGHT = {
    "version": "0.50.2", "device": "cuda", "native": True, "built_with_cuda": True, "forward_error": 0.004,
    "backward_error": 0.004,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"native": False}, "native library"),
        ({"built_with_cuda": False}, "native library"),
        ({"backward_error": 0.4}, "backward is off by 40.0%"),
        ({"forward_error": float("nan")}, "forward is off"),
    ],
)
def test_bitsandbytes_that_computes_wrongly(change: dict[str, Any], said: str) -> None:
    assert doctor_stack.check_bitsandbytes({"bitsandbytes": RIGHT}).state == OK
    check = doctor_stack.check_bitsandbytes({"bitsandbytes": RIGHT | change})
    assert check.state == BROKEN and said in check.found


def test_xformers_says_plainly_whose_operators_are_used() -> None:
    ours = {"installed": True, "version": "0.0.35", "own_extension": False, "built_for": "2.10.0+cu128"}
    check = doctor_stack.check_xformers({"xformers": ours | {"operators": ["cutlassF-pt", "fa2F@2.5.7-pt"]}})
    assert check.state == OK
    assert "built for torch 2.10.0+cu128: its own extension does not load; PyTorch's operators are used" in check.found
    wrong = ours | {"operators": ["cutlassF-pt"], "attention_error": 0.5}
    check = doctor_stack.check_xformers({"xformers": wrong})
    assert check.state == BROKEN and "off by 50.0%" in check.found
    fine = ours | {"own_extension": True, "operators": ["fa2F@0.0"], "attention_error": 0.001}
    check = doctor_stack.check_xformers({"xformers": fine})
    assert check.state == OK and "its own extension loads" in check.found
    assert doctor_stack.check_xformers({"xformers": ours | {"operators": []}}).state == DOUBTFUL
    assert doctor_stack.check_xformers({"xformers": {"installed": False}}).state == DOUBTFUL


def test_a_triton_kernel_that_fails() -> None:
    found = {"torch": TORCH, "triton": {"error": "RuntimeError: Failed to find C compiler"}}
    check = doctor_stack.check_triton(found)
    assert check.state == BROKEN and "C compiler" in check.found
    assert doctor_stack.check_triton({"torch": TORCH, "triton": {"installed": False}}).state == BROKEN


def package(folder: Path, name: str, version: str, *needs: str) -> None:
    """Metadata of a package, as pip writes them, in a folder of the path."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {n}" for n in needs)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


def test_vllm_that_wants_another_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "vllm", "0.33.0", "torch==2.14.0", "transformers>=5.16.1,<5.21")
    monkeypatch.syspath_prepend(str(tmp_path))
    if metadata.version("torch") != "2.14.0":
        check = doctor_stack.check_vllm()
        assert check.state == BROKEN and "wants torch==2.14.0" in check.found
        assert "constraints-vllm.txt" in str(check.mend)
    package(tmp_path, "torch", "2.14.0")
    assert doctor_stack.check_vllm().state == OK


@pytest.mark.parametrize(
    ("name", "version", "state", "said"),
    [
        ("trl", "1.9.0", BROKEN, "trl 1.9.0 (wanted: <1.16,>=1.15)"),
        ("accelerate", "1.15.99", DOUBTFUL, "accelerate 1.15.99 (pinned: 1.15.0)"),
        ("idna", "3.21", OK, "lesser ones differ: 1 (idna 3.21)"),
    ],
)
def test_a_wrong_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, state: str, said: str
) -> None:
    if doctor_stack.off_pins():
        pytest.skip("this environment is not the pinned one")
    assert doctor_stack.check_versions().state == OK
    package(tmp_path, name, version)
    monkeypatch.syspath_prepend(str(tmp_path))
    check = doctor_stack.check_versions()
    assert check.state == state and said in check.found, check


@pytest.mark.parametrize(
    ("cuda", "vllm", "name"),
    [
        ("13.0", None, "constraints.txt"),
        ("13.0", "0.33.0", "constraints-vllm.txt"),
        ("12.8", None, "constraints-cu128.txt"),
        (None, None, "constraints.txt"),
    ],
)
def test_versions_are_held_against_the_pins_of_this_stack(
    cuda: str | None, vllm: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor_stack.installed
    build = {"version": "2.10.0", "cuda": cuda}
    monkeypatch.setattr(doctor_stack, "torch_build", lambda: build)
    monkeypatch.setattr(doctor_stack, "installed", lambda one: vllm if one == "vllm" else real(one))
    assert doctor_stack.constraints_file().name == name
    assert doctor_stack.wanted_pins()["torch"].public.startswith("2.1")


def test_a_copy_that_was_never_installed_or_lacks_the_constraints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run asks for these, and must not die of it."""
    monkeypatch.setattr(doctor_stack, "own_needs", lambda: None)
    assert "its bounds are not known" in doctor_stack.check_versions().found
    monkeypatch.setattr(doctor_stack, "constraints_file", lambda: tmp_path / "constraints.txt")
    assert doctor_stack.off_pins() == {}
    check = doctor_stack.check_versions()
    assert check.state == DOUBTFUL and "no constraints.txt" in check.found
    monkeypatch.undo()

    def none(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", none)
    assert doctor_stack.own_needs() is None


# The whole --------------------------------------------------------------------------------------------------------


def test_a_runs_record_has_the_facts_and_asks_neither_torch_nor_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_probe(*_: object, **__: object) -> None:
        raise AssertionError("a run must not wait for it")

    monkeypatch.setattr(doctor_stack, "probe", no_probe)
    monkeypatch.setattr(doctor_machine, "check_hub", no_probe)
    made = doctor.record(tmp_path / "run", world_size=1, recipe="sft", argv=["arcslim", "sft"])
    json.dumps(made)
    assert made["recipe"] == "sft" and made["packages"]["torch"] and made["world_size"] == 1
    assert {"torch_build", "disk_free_bytes", "shared_memory_bytes", "versions_off"} <= made.keys()
    assert {check["name"] for check in made["checks"]} >= {"Python", "driver", "versions", "hub cache", "run folder"}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No probe: it takes half a minute, and tests/policy/test_probe.py makes it."""
    found = {
        "torch": TORCH | {"available": False, "error": "no driver"}, "bitsandbytes": RIGHT | {"device": "cpu"},
        "xformers": XFORMERS, "triton": {"installed": True, "version": "3.8.0"},
        "flash_attn": {"installed": False},
    }  # fmt: skip
    monkeypatch.setattr(doctor_stack, "probe", lambda: found)
    monkeypatch.setenv("COLUMNS", "160")


def test_one_screen_and_exit_code_0(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_disk(monkeypatch, 60 * GIB)
    monkeypatch.setenv("COLUMNS", "80")
    assert arcslim("doctor", "--run-dir", "runs") == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) <= 24 and max(map(len, said.splitlines())) <= 80, said
    for name in (
        "Python", "driver", "torch", "bitsandbytes", "xformers", "Triton", "C compiler", "flash-attention", "vLLM",
        "versions", "hub cache", "run folder", "/dev/shm", "the hub", "tokens",
    ):  # fmt: skip
        assert any(name in line for line in said.splitlines()), name


def test_exit_code_1_when_something_is_broken_and_json_says_it_all(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_disk(monkeypatch, 0.2 * GIB)
    secret = "hf_" + "abcdefghij" * 3
    monkeypatch.setenv("HF_TOKEN", secret)
    assert arcslim("doctor", "--run-dir", tmp_path, "--json") == 1
    said = capsys.readouterr()
    assert secret not in said.out + said.err
    told = json.loads(said.out)
    assert told["tokens_present"]["hub"] is True
    assert told["state"] == BROKEN and told["packages"]["torch"] and told["python"] == sys.version.split()[0]
    broken = [check for check in told["checks"] if check["state"] == BROKEN]
    assert {check["name"] for check in broken} == {"hub cache", "run folder"} and all(one["mend"] for one in broken)


def test_the_main_process_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from arcslim.cli import main\n"
        "from arcslim.runs import doctor, doctor_stack; doctor_stack.probe = dict\n"
        "states = {check.name: check.state for check in doctor.all_checks(Path(sys.argv[1]))}\n"
        "print(states['torch'], [name for name in ('torch', 'transformers', 'bitsandbytes') if name in sys.modules])"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    line = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "broken []", "a probe that found nothing is no torch"


def test_weights_that_are_in_the_cache_are_not_wanted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    name = weights_repository(load_config("4090").config.model.name, four_bit=True, on_gpu=True)
    blobs = tmp_path / f"models--{name.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    wanted = room_of("4090").weights
    (blobs / "a.incomplete").write_bytes(b"")
    os.truncate(blobs / "a.incomplete", GIB)  # sparse
    assert room_of("4090").weights == wanted
    (blobs / "b").write_bytes(b"")
    os.truncate(blobs / "b", GIB)
    assert room_of("4090").weights == wanted - GIB
    os.truncate(blobs / "b", 9 * GIB)
    assert room_of("4090").weights == 0


def test_a_preset_says_how_much_disk_it_wants() -> None:
    room = room_of("olympiccoder-7b")
    assert room.sure and 14 < room.weights / GIB < 15
    assert room.checkpoints > 3 * 28 * GIB, "a checkpoint holds weights and optimizer"
    assert room_of("cpu").weights == 0
    assert room_of("4090").weights < 6 * GIB, "4-bit weights are what is downloaded"
    assert Room().sure is False


def test_text_of_a_library_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [Check("x", DOUBTFUL, "[Errno -2] [/nothing]", "try [this]")]
    show(checks)
    said = capsys.readouterr().out
    assert "[Errno -2] [/nothing]" in said and "try [this]" in said and "ready; 1 doubtful" in said
    assert worst(checks) == DOUBTFUL


def test_a_place_that_can_be_no_folder_is_broken(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("")
    for place, why in ((tmp_path / "afile", "is a file"), (tmp_path / "afile" / "sub", "is a file"),
                       (tmp_path / ("x" * 300), "File name too long")):  # fmt: skip
        check = doctor_machine.check_disk("run folder", place, 1.0, move="--run-dir")
        assert check.state == BROKEN and why in check.found and "--run-dir" in str(check.mend)
    assert doctor_machine.check_disk("run folder", tmp_path / "a" / "b", 1.0, move="--run-dir").state == OK


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("constraints.txt", 'pip install -c constraints.txt -e "."'),
        ("constraints-vllm.txt", 'pip install -c constraints-vllm.txt -e ".[vllm]"'),
        ("constraints-cu128.txt", 'pip install -c constraints-cu128.txt -e "."'),
    ],
)
def test_the_mend_installs_the_stack_that_is_there(
    name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("torch==1.0.0\n")
    monkeypatch.setattr(doctor_stack, "constraints_file", lambda: tmp_path / name)
    assert doctor_stack.check_versions().mend == line

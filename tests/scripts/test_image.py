"""The image: what its Dockerfile promises, what gets into the build, and the script that builds it.

Building it takes gigabytes and minutes: docs/docker.md has the transcript of that.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pathspec
import pytest
from packaging.requirements import Requirement

from arcslim.runs.doctor_machine import DRIVERS

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
HADOLINT = Path(sys.executable).parent / "hadolint"
PINS = {"vllm": "constraints-vllm.txt", "cu130": "constraints.txt", "cu128": "constraints-cu128.txt"}
ROW = re.compile(
    r"^#   (?P<stack>\w+) +torch (?P<torch>[\d.]+) +(?P<cuda>[\d.]+) +(?P<vllm>\S+) +>= (?P<driver>\d+) +(?P<pins>\S+)",
    re.MULTILINE,
)


def instructions(text: str = DOCKERFILE) -> list[tuple[str, str]]:
    """Each instruction with its argument, comments left out and continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [(word.upper(), rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def final_stage() -> list[tuple[str, str]]:
    every = instructions()
    last = max(place for place, (word, _) in enumerate(every) if word == "FROM")
    return every[last:]


def argument(word: str, stage: Sequence[tuple[str, str]]) -> str:
    """The last one of that instruction, which is the one that holds."""
    return [rest for name, rest in stage if name == word][-1]


def pins(stack: str) -> dict[str, str]:
    lines = (ROOT / PINS[stack]).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


# The Dockerfile


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "Dockerfile"], cwd=folder, capture_output=True, text=True, check=False)


def test_hadolint_finds_nothing() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    shutil.copy(ROOT / ".hadolint.yaml", tmp_path)
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.replace("WORKDIR /work\n", "WORKDIR work\n"))
    done = lint(tmp_path)
    assert done.returncode == 1
    assert "DL3000" in done.stdout


def test_the_stacks_are_those_that_are_pinned() -> None:
    rows = {row["stack"]: row for row in ROW.finditer(DOCKERFILE)}
    assert {stack: row["pins"] for stack, row in rows.items()} == PINS
    for stack, row in rows.items():
        pinned = pins(stack)
        assert pinned["torch"] == row["torch"]
        assert pinned.get("vllm", "none") == row["vllm"]
        runtime = pinned.get("nvidia-cuda-runtime") or pinned["nvidia-cuda-runtime-cu12"]
        assert runtime.startswith(row["cuda"] + ".")
        assert int(row["driver"]) == DRIVERS[int(row["cuda"].split(".")[0])]


def test_the_page_has_the_same_table() -> None:
    page = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    cells = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if "`constraints" in line
    ]
    found = {re.split(r"\W", row[0])[0]: [*row[1:4], row[4].split()[0], row[5]] for row in cells if len(row) == 6}
    assert found == {row["stack"]: list(row.groups()[1:]) for row in ROW.finditer(DOCKERFILE)}


def test_the_dockerfile_names_no_version_that_the_pins_name() -> None:
    code = " ".join(rest for _, rest in instructions())
    assert re.findall(r"([\w-]+)==", code) == ["pip", "pip"]  # pip itself, in two stages
    assert len(set(re.findall(r"pip==([\d.]+)", code))) == 1
    for stack, file in PINS.items():
        extra = "vllm" if stack == "vllm" else ""
        assert f"{stack}) pins={file}; extra={extra} ;;" in code


@pytest.mark.parametrize("stack", PINS)
def test_each_set_of_pins_holds_what_arcslim_wants(stack: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins(stack)
    extras = project["optional-dependencies"]["vllm"] if stack == "vllm" else []
    for need in map(Requirement, [*project["dependencies"], *extras]):
        assert need.specifier.contains(pinned[need.name]), need
    assert all(re.fullmatch(r"[\w.]+", version) for version in pinned.values())  # neither a host nor a path


def test_it_runs_as_a_user_who_is_not_root() -> None:
    stage = final_stage()
    assert argument("USER", stage) == "${USER_UID}:${USER_GID}"
    defaults = dict(rest.split("=") for word, rest in stage if word == "ARG")
    assert int(defaults["USER_UID"]) >= 1000 and int(defaults["USER_GID"]) >= 1000
    assert not [rest for word, rest in stage[[word for word, _ in stage].index("USER") :] if word in ("RUN", "COPY")]


def test_the_entry_point_is_arcslim_without_a_shell() -> None:
    assert json.loads(argument("ENTRYPOINT", final_stage())) == ["arcslim"]  # a shell would keep SIGTERM to itself


def test_a_compiler_is_in_the_final_image() -> None:
    stages = {rest.split(" AS ")[1]: rest.split(" AS ")[0] for word, rest in instructions() if word == "FROM"}
    assert stages["final"] == "base"
    base = instructions()[2]
    assert base[0] == "RUN" and {"gcc", "g++", "python3-dev"} <= set(base[1].split())


def test_every_cache_lies_on_a_volume_of_the_user() -> None:
    stage = final_stage()
    volumes = json.loads(argument("VOLUME", stage))
    variables = dict(pair.split("=", 1) for pair in argument("ENV", stage).split())
    caches = {name: value for name, value in variables.items() if value.startswith("/cache")}
    wanted = {"HF_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "UNSLOTH_COMPILE_LOCATION"}
    assert wanted <= caches.keys()
    assert volumes == ["/cache", argument("WORKDIR", stage)]
    made = next(rest for word, rest in stage if word == "RUN")
    assert f'install -d -o "${{USER_UID}}" -g "${{USER_GID}}" {" ".join(volumes)}' in made


def test_no_secret_and_no_mirror_is_baked_in() -> None:
    for word, rest in instructions():
        assert word != "ADD"
        if word in ("ARG", "ENV"):
            assert not re.search(r"token|secret|password|api_?key|index_url", rest, re.IGNORECASE), rest
        if word == "COPY":
            assert not re.search(r"\.netrc|\.env|\.ssh|token|secret|pip\.conf|\.pem|\.key", rest, re.IGNORECASE), rest
        assert not re.search(r"https?://|--(extra-)?index-url|--trusted-host", rest), rest
    mounts = re.findall(r"--mount=type=secret,(\S+)", DOCKERFILE)
    assert mounts == ["id=pip.conf,target=/etc/pip.conf", "id=ca"] * 2


# What gets into the build


def context() -> pathspec.GitIgnoreSpec:
    """.dockerignore; for patterns as plain as these Docker and git agree."""
    return pathspec.GitIgnoreSpec.from_lines((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".venv/bin/python", "runs/grpo-1/final/adapter_model.safetensors", "shared/DESIGN.md", ".env",
        "arcslim/.env", "arcslim/.cache/huggingface/token", "arcslim/runs/__pycache__/folder.cpython-311.pyc",
        "id_rsa", "pip.conf", ".netrc", "wandb/run-1/files/config.yaml", "tests/conftest.py",
    ],
)  # fmt: skip
def test_it_stays_out_of_the_build(path: str) -> None:
    assert context().match_file(path)


def test_all_that_the_wheel_is_made_of_is_in_the_build() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, wheel = pyproject["project"], pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]
    alone = ["pyproject.toml", project["readme"], *project["license-files"], *wheel["force-include"], *PINS.values()]
    folders = (ROOT / folder for folder in wheel["only-include"])
    files = [path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*") if path.is_file()]
    left_out = [name for name in [*alone, *files] if context().match_file(name) and "__pycache__" not in name]
    assert left_out == []
    assert {"arcslim/runs/folder.py", "arcslim/policy/tiny/model.safetensors", "presets/cpu.toml"} <= set(files)


# scripts/build_image.sh


class Machine:
    """A PATH with a shell's own tools and the engines that a test puts there; these write down their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder / "bin", folder / "calls"
        self.folder.mkdir()
        for tool in ("bash", "sed", "git", "head", "dirname", "timeout", "realpath"):
            (self.folder / tool).symlink_to(str(shutil.which(tool)))

    def engine(self, name: str, *, daemon: bool = True, code: int = 0) -> None:
        script = self.folder / name
        script.write_text(
            f"#!/bin/bash\n[ $1 != info ] || exit {0 if daemon else 1}\n"
            f'printf "%s\\n" {name} "$@" >> {self.calls}\nexit {code}\n'
        )
        script.chmod(0o755)

    def build(self, *arguments: str, cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
        command = ["bash", str(ROOT / "scripts" / "build_image.sh"), *arguments]
        return subprocess.run(
            command, env={"PATH": str(self.folder)}, cwd=cwd, capture_output=True, text=True, check=False
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "arcslim" / "__init__.py").read_text())
    assert found
    return found[1]


def test_docker_builds_with_the_dockerfiles_own_defaults(machine: Machine) -> None:
    machine.engine("docker")
    machine.engine("buildah")
    done = machine.build()
    assert done.returncode == 0, done.stderr
    first, *rest = machine.called()
    revision = rest.pop(4)
    assert re.fullmatch(r"REVISION=([0-9a-f]{40}(-changed)?|unknown)", revision)
    assert [first, *rest] == [
        "docker", "build", "--build-arg", f"VERSION={version()}", "--build-arg", "--tag", f"arcslim:{version()}-vllm",
        ".",
    ]  # fmt: skip


def test_what_is_asked_for_is_passed_on(machine: Machine, tmp_path: Path) -> None:
    machine.engine("docker")
    conf, ca = tmp_path / "my pip.conf", tmp_path / "ca.crt"
    conf.write_text("[global]\n")
    ca.write_text("")
    done = machine.build(
        "--stack", "cu128", "--base", "ubuntu:24.04", "--uid", "1234", "--gid", "1235", "--tag", "mine",
        "--pip-conf", str(conf), "--ca", str(ca), "--", "--no-cache", "--network", "host",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    called = machine.called()
    values = [value for option, value in pairwise(called) if option == "--build-arg"]
    assert values[2:] == ["BASE_IMAGE=ubuntu:24.04", "STACK=cu128", "USER_UID=1234", "USER_GID=1235"]
    declared = {rest.split("=")[0] for word, rest in instructions() if word == "ARG"}
    assert {value.split("=")[0] for value in values} == declared  # none unknown to the Dockerfile, none left out
    secrets = [value for option, value in pairwise(called) if option == "--secret"]
    assert secrets == [f"id=pip.conf,src={conf}", f"id=ca,src={ca}"]
    assert called[-6:] == ["--tag", "mine", "--no-cache", "--network", "host", "."]


def test_files_are_named_from_where_one_stands(machine: Machine, tmp_path: Path) -> None:
    machine.engine("docker")
    for name in ("pip.conf", "ca.crt"):
        (tmp_path / name).write_text("")
    done = machine.build("--pip-conf", "pip.conf", "--ca", "./ca.crt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    secrets = [value for option, value in pairwise(machine.called()) if option == "--secret"]
    assert secrets == [f"id=pip.conf,src={tmp_path}/pip.conf", f"id=ca,src={tmp_path}/ca.crt"]


def test_buildah_builds_where_docker_has_no_daemon(machine: Machine) -> None:
    machine.engine("docker", daemon=False)
    machine.engine("buildah")
    assert machine.build("--stack", "cu130").returncode == 0
    called = machine.called()
    assert called[:2] == ["buildah", "bud"]
    assert called[-2:] == [f"arcslim:{version()}-cu130", "."]


def test_an_engine_that_is_asked_for_is_not_replaced(machine: Machine) -> None:
    machine.engine("docker", daemon=False)
    machine.engine("buildah")
    done = machine.build("--engine", "docker")
    assert done.returncode == 1
    assert "docker is not here, or its daemon does not answer" in done.stderr
    assert not machine.calls.exists()
    assert machine.build("--engine", "buildah").returncode == 0


def test_no_engine_says_what_to_install(machine: Machine) -> None:
    done = machine.build()
    assert done.returncode == 1
    assert "neither docker (with its daemon running) nor buildah" in done.stderr
    assert "apt-get install buildah" in done.stderr


def test_the_engines_failure_is_the_scripts(machine: Machine) -> None:
    machine.engine("docker", code=17)
    assert machine.build().returncode == 17


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stack", "cu124"], "--stack cu124 is none of vllm, cu130, cu128"),
        (["--uid", "0"], "--uid 0 is root"),
        (["--gid", "users"], "--uid and --gid are numbers, not users"),
        (["--pip-conf", "/nowhere/pip.conf"], "/nowhere/pip.conf is no file that can be read"),
        (["--ca", "/tmp"], "/tmp is no file that can be read"),
        (["--uid", "00"], "--uid 00 is root"),
        (["--uid", "99999999999999"], "at most 999999999"),
        (["--tag"], "--tag wants a value"),
        (["--engine", "podman"], "--engine podman is neither docker nor buildah"),
        (["--stak", "vllm"], "unknown argument: --stak"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_built(machine: Machine, arguments: list[str], said: str) -> None:
    machine.engine("docker")
    done = machine.build(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "scripts/build_image.sh [--stack" in done.stderr
    assert not machine.calls.exists()

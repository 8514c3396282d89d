"""The floors: who may import whom, read from the source with ``ast``."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import arcslim

PACKAGE = Path(arcslim.__file__).parent
FLOORS = {
    "": 0,
    "errors": 0,
    "section": 1,
    "sft_config": 1,
    "data_config": 1,
    "her_config": 1,
    "her_checks": 1,
    "sft_checks": 1,
    "config": 1,
    "fields": 1,
    "tomllines": 1,
    "checks": 1,
    "findings": 1,
    "presets": 1,
    "layers": 1,
    "cards": 1,
    "cards_gpus": 1,
    "cards_ram": 1,
    "tasks": 2,
    "prompts": 3,
    "learning": 4,
    "policy": 4,
    "rewards": 4,
    "memory": 4,
    "recipes": 5,
    "runs": 6,
    "cli": 7,
    "__main__": 8,
}
TORCH = {"torch", "torchvision", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "unsloth", "xformers"}
TORCH_FOLDERS = {"learning", "policy", "recipes"}
TORCH_FREE_FILES = {"recipes/geometry.py", "recipes/watch.py", "recipes/sink.py"}
AFTER_UNSLOTH = {"trl", "transformers", "peft"}
FILES = sorted(PACKAGE.rglob("*.py"))


def part(module: str) -> str:
    """``arcslim.tasks.grid`` → ``tasks``; the package itself → ""."""
    return [*module.split("."), ""][1]


def part_of(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported module with its line, wherever in the file it is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the floor"
            if node.module == "arcslim":
                yield from ((f"arcslim.{alias.name}", node.lineno) for alias in node.names)
            elif node.module:
                yield node.module, node.lineno


def imported_on_load(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What importing the file imports: not what its functions do, not what type checkers see."""
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from imports(node)


def violations(file: Path, source: str) -> list[str]:
    here = part_of(file)
    name = file.relative_to(PACKAGE).as_posix()
    found = []
    for module, line in imports(ast.parse(source)):
        top = module.split(".")[0]
        if top == "arcslim":
            there = part(module)
            # A name that is no module, such as arcslim.__version__, comes from the package itself.
            there = there if there in FLOORS else ""
            same_folder = here == there or FLOORS[here] == FLOORS[there] <= 1
            if not same_folder and FLOORS[there] >= FLOORS[here]:
                found.append(f"{name}:{line}: F{FLOORS[here]} {here} imports F{FLOORS[there]} {module}")
        elif top in TORCH and (here not in TORCH_FOLDERS or name in TORCH_FREE_FILES):
            found.append(f"{name}:{line}: {here} must do without {top}")
        if top == "unsloth" and name != "policy/load.py":
            found.append(f"{name}:{line}: unsloth is imported in policy/load.py only")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_imports_keep_to_the_floors(file: Path) -> None:
    assert violations(file, file.read_text()) == []


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("tasks/bad.py", "from arcslim.prompts.text import grid_to_text", "imports F3"),
        ("rewards/bad.py", "def f():\n    from arcslim.policy.load import Policy", "imports F4"),
        ("recipes/bad.py", "import arcslim.runs.folder", "imports F6"),
        ("runs/bad.py", "import torch.nn", "must do without torch"),
        ("recipes/geometry.py", "import torch", "must do without torch"),
        ("recipes/bad.py", "import unsloth", "policy/load.py only"),
        ("config.py", "from arcslim.tasks import grid", "imports F2"),
    ],
)
def test_a_breach_is_seen(name: str, source: str, said: str) -> None:
    assert any(said in found for found in violations(PACKAGE / name, source))


def test_every_module_has_a_floor() -> None:
    assert {part_of(file) for file in FILES} <= set(FLOORS)


def test_nothing_pulls_trl_transformers_or_peft_in_before_unsloth() -> None:
    """A file may import them at its top only in recipes/, and only if no other imports that file at its own top:
    the recipe does it in its body, once the gateway has imported Unsloth."""
    on_load = {file: {module for module, _ in imported_on_load(ast.parse(file.read_text()))} for file in FILES}
    heavy = {file for file, modules in on_load.items() if {module.split(".")[0] for module in modules} & AFTER_UNSLOTH}
    assert {part_of(file) for file in heavy} <= {"recipes"}
    names = {".".join(["arcslim", *file.relative_to(PACKAGE).with_suffix("").parts]) for file in heavy}
    assert [file.name for file, modules in on_load.items() if modules & names and file not in heavy] == []


def test_unsloth_comes_first_where_it_is_imported() -> None:
    tree = ast.parse((PACKAGE / "policy" / "load.py").read_text())
    with_unsloth = 0
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        lines = [(line, module.split(".")[0]) for module, line in imports(function)]
        unsloth = [line for line, top in lines if top == "unsloth"]
        others = [line for line, top in lines if top in AFTER_UNSLOTH]
        if unsloth:
            with_unsloth += 1
            assert all(min(unsloth) < line for line in others), f"{function.name}: unsloth first"
    assert with_unsloth > 0, "policy/load.py is the one place that imports unsloth"


def test_the_torch_free_part_loads_without_torch() -> None:
    modules = [
        ".".join(["arcslim", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        for file in FILES
        if part_of(file) not in TORCH_FOLDERS | {"__main__"}
    ]
    code = "import sys\n" + "".join(f"import {module}\n" for module in modules)
    code += f"print(sorted({TORCH!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"

"""The RAM that a process may have, by control groups of both versions: files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from arcslim import cards_ram
from arcslim.cards import GIB, cpu_card
from arcslim.cards_ram import host_ram

TOTAL, AVAILABLE = 64 * GIB, 40 * GIB


class Machine:
    total, available = TOTAL, AVAILABLE


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cards_ram, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cards_ram, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(psutil, "virtual_memory", Machine)
    return tmp_path / "groups"


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"memory.{name}").write_text(f"{content}\n")


def own(groups: Path, *lines: str) -> None:
    (groups.parent / "own").write_text("".join(f"{line}\n" for line in lines))


def test_without_control_groups_it_is_the_machines(groups: Path) -> None:
    assert host_ram() == cards_ram.Ram(TOTAL, AVAILABLE, limited=False)
    own(groups, "0::/user.slice")
    write(groups / "user.slice", max="max", current=GIB)
    assert host_ram() == cards_ram.Ram(TOTAL, AVAILABLE, limited=False)


def test_a_containers_limit_version_2(groups: Path) -> None:
    own(groups, "0::/")
    write(groups, max=16 * GIB, current=6 * GIB, stat=f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file {GIB}\n")
    assert host_ram() == cards_ram.Ram(16 * GIB, 13 * GIB, limited=True)
    assert cpu_card().usable_gib == 16 and "control group" in cpu_card().source


def test_the_lowest_limit_on_the_way_up_holds(groups: Path) -> None:
    own(groups, "0::/system.slice/run.service/inner")
    write(groups / "system.slice", max=8 * GIB, current=7 * GIB)
    write(groups / "system.slice" / "run.service", max="max", current=GIB)
    write(groups / "system.slice" / "run.service" / "inner", max=12 * GIB, current=GIB)
    assert host_ram() == cards_ram.Ram(8 * GIB, GIB, limited=True)


def test_a_container_whose_path_is_the_hosts_is_seen_at_the_top(groups: Path) -> None:
    own(groups, "0::/docker/0ceb4596")
    write(groups, max=16 * GIB, current=20 * GIB)
    assert host_ram() == cards_ram.Ram(16 * GIB, 0, limited=True)


def test_version_1(groups: Path) -> None:
    own(groups, "5:devices:/", "4:memory,hugetlb:/docker/0ceb4596", "1:cpu:/", "0::/")
    folder = groups / "memory" / "docker" / "0ceb4596"
    write(folder, limit_in_bytes=10 * GIB, usage_in_bytes=4 * GIB, stat=f"total_inactive_file {GIB}\n")
    write(groups / "memory", limit_in_bytes=2**63 - 4096, usage_in_bytes=30 * GIB)
    assert host_ram() == cards_ram.Ram(10 * GIB, 7 * GIB, limited=True)


def test_more_than_the_machine_has_is_no_limit(groups: Path) -> None:
    own(groups, "0::/")
    write(groups, max=2 * TOTAL, current=GIB)
    assert host_ram() == cards_ram.Ram(TOTAL, AVAILABLE, limited=False)
    assert cpu_card().usable_gib == 64 and cpu_card().source == "this machine's RAM"


def test_here_it_is_what_this_machine_has() -> None:
    ram = host_ram()
    assert 0 < ram.free <= ram.total <= psutil.virtual_memory().total

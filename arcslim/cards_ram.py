"""How much RAM this process may have: the machine's or, where a container or a service is given less, its limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Ram:
    """Bytes. ``total``: what this process can have at most; ``free``: what of it is not taken now (file caches, which
    give way, count as free). ``limited``: a limit of a control group, and not the machine, says so."""

    total: float
    free: float
    limited: bool = False


@dataclass(frozen=True)
class _Files:
    """What a version of control groups calls its limit, what is used, and of that the caches of files."""

    limit: str
    used: str
    caches: tuple[str, ...]


_V2 = _Files("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def host_ram() -> Ram:
    """This process's RAM: psutil's figures, and no more than each control group that it is in allows."""
    import psutil

    machine = psutil.virtual_memory()
    total, free, limited = float(machine.total), float(machine.available), False
    for folder, files in _groups():
        limit = _number(folder / files.limit)
        if limit is None:
            continue
        if limit < total:
            total, limited = limit, True
        used = _number(folder / files.used)
        if used is not None:
            free = min(free, max(0.0, limit - used + _caches(folder, files)))
    return Ram(total, min(free, total), limited)


def _groups() -> Iterator[tuple[Path, _Files]]:
    """The folders of the control groups that this process is in, and of those above. A container sees its own at the
    top, whatever /proc says of its path."""
    try:
        lines = OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top, files = (GROUPS / "memory", _V1) if controllers else (GROUPS, _V2)
        folder = top / path.lstrip("/")
        while folder != top and top in folder.parents:
            yield folder, files
            folder = folder.parent
        yield top, files


def _number(file: Path) -> float | None:
    """The number in a file; None for ``max``, and where there is no such file."""
    try:
        return float(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _caches(folder: Path, files: _Files) -> float:
    try:
        lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    held = dict(line.split(maxsplit=1) for line in lines if " " in line)
    return float(sum(int(held.get(name, 0)) for name in files.caches))

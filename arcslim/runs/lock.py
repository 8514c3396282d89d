"""One process at a time writes in a run folder: a lock that the kernel frees when its holder ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from arcslim.errors import RunFolderError

LOCK_FILE = ".lock"


class FolderLock:
    """``flock`` on ``.lock`` in the folder; the file says who holds it.

    ``note`` is set where the file system has no locks (some network ones): the run goes on, unprotected, and says so.

    Raises:
        RunFolderError: another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.note: str | None = None
        path = folder / LOCK_FILE
        self._file: IO[str] | None = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read(200).strip() or "another process"
            self.release()
            raise RunFolderError(
                f"{folder} is in use by {holder}", "Wait for it, stop it, or give this run another --run-dir."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
                self.release()
                raise
            self.note = f"no file locks here ({error.strerror}): take care that one run alone uses {folder}"
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

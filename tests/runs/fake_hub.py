"""A hub on this machine: as much of its HTTP interface as listing and downloading need. The network alone is faked."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"
Files = dict[str, bytes]


class FakeHub:
    """``repositories``: files by ``models/OWNER/NAME`` or ``datasets/OWNER/NAME``; ``gated``: want a licence.
    ``cut_after``: bytes of a file after which the line drops, ``cuts`` times; None for a good line. ``ranges``: which
    files were read, and from where on."""

    def __init__(self) -> None:
        self.repositories: dict[str, Files] = {}
        self.gated: set[str] = set()
        self.cut_after: int | None = None
        self.cuts = 1000
        self.ranges: list[tuple[str, int]] = []
        self.sizes: dict[str, int] = {}  # of files that are said to be larger than they are
        self.url = ""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            if path.startswith("/api/") and path.count("/") < 4:
                return self._error(404, "EntryNotFound")
            if path.startswith("/api/"):
                kind, owner, name, *rest = path.removeprefix("/api/").split("/")
                repository = f"{kind}/{owner}/{name}"
            else:
                parts = path.strip("/").split("/")
                kind = parts.pop(0) if parts[0] == "datasets" else "models"
                owner, name, _, _, *rest = parts
                repository = f"{kind}/{owner}/{name}"
            files = hub.repositories.get(repository)
            if files is None:
                self._error(401, "RepoNotFound")
            elif path.startswith("/api/"):
                self._api(repository, files, rest)
            elif repository in hub.gated:
                self._error(403, "GatedRepo")
            elif (file := "/".join(rest)) not in files:
                self._error(404, "EntryNotFound")
            else:
                self._file(file, files[file], body=body)

        def _api(self, repository: str, files: Files, rest: list[str]) -> None:
            if repository in hub.gated:
                self._error(403, "GatedRepo")
            elif rest and rest[0] == "tree":
                self._json([self._entry(name, content) for name, content in files.items()])
            elif rest and rest[0] == "revision" and rest[1] not in ("main", SHA):
                self._error(404, "RevisionNotFound")
            else:
                siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
                self._json({"_id": "1", "id": repository.partition("/")[2], "sha": SHA, "siblings": siblings})

        def _entry(self, name: str, content: bytes) -> dict[str, Any]:
            blob = hashlib.sha1(content).hexdigest()
            return {"type": "file", "path": name, "size": hub.sizes.get(name, len(content)), "oid": blob}

        def _file(self, name: str, content: bytes, *, body: bool) -> None:
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
            if body:
                hub.ranges.append((name, start))
            rest = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", SHA)
            self.send_header("X-Linked-Size", str(hub.sizes.get(name, len(content))))
            self.send_header("Accept-Ranges", "bytes")
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            if not body:
                return
            if hub.cut_after is None or start + len(rest) <= hub.cut_after or hub.cuts == 0:
                self.wfile.write(rest)
            else:
                hub.cuts -= 1
                self.wfile.write(rest[: max(0, hub.cut_after - start)])
                self.wfile.flush()
                self.close_connection = True

        def _json(self, told: Any) -> None:
            text = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _error(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()

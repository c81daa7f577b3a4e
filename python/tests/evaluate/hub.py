"""A small server that speaks as much of the Hugging Face hub's API as a download needs: HF_ENDPOINT points to it.

Repositories are folders: ROOT/models/ORG/NAME and ROOT/datasets/ORG/NAME, each with one revision.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The server; as a context it listens, and `asked` has the requests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self, body=True)

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_POST(self) -> None:
                hub.answer(self, body=True)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Hub:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        """Answers one request."""
        path = unquote(urlsplit(request.path).path).strip("/")
        self.asked.append(f"{request.command} /{path}")
        sent = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        parts = path.split("/")
        if parts[0] == "api" and len(parts) >= 4:
            self._api(request, parts[1], "/".join(parts[2:4]), parts[4:], sent)
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = "datasets" if parts[0] == "datasets" else "models"
            name = "/".join(parts[1:at] if kind == "datasets" else parts[:at])
            self._file(request, self.root / kind / name / "/".join(parts[at + 2 :]), body)
        else:
            self._json(request, 404, {"error": "not found"}, {"X-Error-Code": "RepoNotFound"})

    def _api(self, request: BaseHTTPRequestHandler, kind: str, name: str, rest: list[str], sent: bytes) -> None:
        repository = self.root / kind / name
        if not repository.is_dir():
            self._json(request, 401, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return
        files = sorted(str(f.relative_to(repository)) for f in repository.rglob("*") if f.is_file())
        entries = [
            {"type": "file", "path": f, "size": (repository / f).stat().st_size, "oid": _etag(repository / f)}
            for f in files
        ]
        if rest[:1] == ["tree"]:
            below = "/".join(rest[2:])
            self._json(request, 200, [e for e in entries if not below or str(e["path"]).startswith(below + "/")])
        elif rest[:1] == ["paths-info"]:
            try:
                wanted = json.loads(sent)["paths"]
            except (ValueError, KeyError, TypeError):
                from urllib.parse import parse_qs

                wanted = parse_qs(sent.decode()).get("paths", [])
            self._json(request, 200, [e for e in entries if e["path"] in wanted])
        elif not rest or rest[0] == "revision":
            siblings = [{"rfilename": f} for f in files]
            self._json(
                request,
                200,
                {
                    "id": name,
                    "modelId": name,
                    "sha": COMMIT,
                    "private": False,
                    "tags": [],
                    "siblings": siblings,
                    "downloads": 0,
                },
            )
        else:
            self._json(request, 404, {"error": "not found"})

    def _file(self, request: BaseHTTPRequestHandler, path: Path, body: bool) -> None:
        if not path.is_file():
            self._json(
                request, 404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
            )
            return
        data = path.read_bytes()
        request.send_response(200)
        for name, value in {
            "ETag": f'"{_etag(path)}"',
            "X-Repo-Commit": COMMIT,
            "Content-Length": str(len(data)),
            "Accept-Ranges": "bytes",
        }.items():
            request.send_header(name, value)
        request.end_headers()
        if body:
            request.wfile.write(data)

    def _json(
        self, request: BaseHTTPRequestHandler, code: int, value: Any, headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(value).encode()
        request.send_response(code)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            request.send_header(name, text)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()

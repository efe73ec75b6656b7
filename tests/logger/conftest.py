"""A small server on loopback that answers what W&B's client asks."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class StubServer(ThreadingHTTPServer):
    """Keeps what arrives. `nonsense`, a status and a body, is given for every answer where it is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.nonsense: tuple[int, str] | None = None
        self.runs: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.asked = threading.Event()
        """set when anything has been asked"""
        self.started = threading.Event()
        """set when the client has begun a run"""
        self.uploads = threading.Event()
        """metrics are received while it is set"""
        self.uploads.set()

    def answer(self, path: str, body: Any) -> Any:
        if path.endswith("/file_stream"):
            self.uploads.wait()
            self.history += map(json.loads, body.get("files", {}).get("wandb-history.jsonl", {}).get("content", []))
        elif path == "/graphql" and "UpsertBucket" in body["query"]:
            self.runs.append(body["variables"])
            self.started.set()
            project = {"id": "p", "name": "project", "entity": {"id": "e", "name": "team"}}
            run = {
                "id": "r",
                "name": body["variables"]["name"],
                "displayName": "run",
                "config": "{}",
                "project": project,
            }
            return {"data": {"upsertBucket": {"bucket": run | {"historyLineCount": 0}, "inserted": True}}}
        elif path == "/graphql" and "CreateRunFiles" in body["query"]:
            files = [{"name": name, "uploadUrl": f"{self.url}/upload"} for name in body["variables"]["files"]]
            return {"data": {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}}
        return {"data": {}}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client drops its connections when it ends."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubServer

    def do_POST(self) -> None:
        body: Any = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.suppress(ValueError):
            body = json.loads(body)
        self.server.asked.set()
        if self.server.nonsense is not None:
            status, text = self.server.nonsense
        else:
            status, text = 200, json.dumps(self.server.answer(self.path, body))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read standard error."""


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.uploads.set()
        server.shutdown()
        thread.join()

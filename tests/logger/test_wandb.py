"""W&B's real client, offline and against a stub server; whatever fails there costs one line and no metric of ours."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from trainer.logger.base import Picture
from trainer.logger.wandb import Wandb
from trainer.logger.wandb_process import has_key

KEY = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"name": "digits", "optimizer": {"lr": 0.125}}
KEPT = "all metrics are in metrics.jsonl"
# As long as it takes where it must work, and as short as can be where it cannot.
PATIENT, HASTY = 60.0, 1.0


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither settings nor keys of whoever runs the tests, and nothing sent to the real server."""
    for name in list(os.environ):
        if name.startswith("WANDB_") or name == "NETRC":
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "digits" / "now"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def build(folder: Path):
    """Build a tracker for the run in `folder`; none outlives the test."""
    built = []

    def build(finish_timeout_s: float, **options):
        writer = Wandb(finish_timeout_s=finish_timeout_s, **options).build(folder, CONFIG, 30, 0)
        built.append(writer)
        return writer

    yield build
    for writer in built:
        if writer._process.poll() is None:
            os.killpg(writer._process.pid, signal.SIGKILL)
            writer._process.wait()


@pytest.fixture
def said(capfd, caplog) -> Callable[[], list[str]]:
    """All that the user has been told, line by line."""
    caplog.set_level("INFO", "trainer")
    return lambda: [*capfd.readouterr().err.splitlines(), *caplog.messages]


def use(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)


def write_some(writer) -> None:
    for step in (10, 20):
        writer.write(step, {"train/loss": 1 / step, "overlap/hidden_ratio": 0.5})
    writer.write(20, {"eval/accuracy": 0.8125})


def nowhere() -> str:
    """The address of a port that nobody listens on."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{reserved.getsockname()[1]}"


def files_with_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_without_a_key_the_run_is_kept_on_disk_and_one_line_says_what_to_do_with_it(folder: Path, build, said):
    writer = build(PATIENT)
    write_some(writer)
    writer.close()
    (kept,) = (folder / "wandb").glob("offline-run-*")
    assert said() == [
        f"wandb: offline run in {kept}; look at it with `wandb leet {kept}` or upload it with `wandb sync {kept}`"
    ]
    content = b"".join(path.read_bytes() for path in kept.glob("run-*.wandb"))
    for entry in (b"train/loss", b"0.05", b"eval/accuracy", b"0.8125", b'"lr":0.125'):
        assert entry in content


def test_a_picture_and_its_numbers_are_kept_with_the_run(tmp_path: Path, folder: Path, build):
    image = tmp_path / "timeline.png"
    Image.new("RGB", (4, 4), "red").save(image)
    writer = build(PATIENT)
    write_some(writer)
    writer.draw(Picture("timeline", image, ["rank", "lane"], [[0, "forward"], [1, "backward"]]))
    writer.close()
    (kept,) = (folder / "wandb").glob("offline-run-*")
    (media,) = (kept / "files" / "media" / "images").glob("timeline*.png")
    assert media.read_bytes() == image.read_bytes()
    (table,) = (kept / "files" / "media" / "table").glob("timeline_table*.json")
    assert json.loads(table.read_text())["data"] == [[0, "forward"], [1, "backward"]]


@pytest.mark.parametrize("source", ["environment", "netrc"])
def test_with_a_key_configuration_and_metrics_reach_the_server(
    monkeypatch, tmp_path: Path, folder: Path, server, build, said, source: str
):
    use(monkeypatch, server.url)
    if source == "netrc":
        monkeypatch.delenv("WANDB_API_KEY")
        (tmp_path / "home" / ".netrc").write_text(
            f"machine 127.0.0.1:{server.server_port}\n login u\n password {KEY}\n"
        )
    writer = build(PATIENT)
    write_some(writer)
    writer.close()
    assert said() == [f"wandb: online at {server.url}/team/project/runs/{server.runs[0]['name']}"]
    assert server.runs[0]["displayName"] == "digits/now"
    assert '"optimizer":{"value":{"lr":0.125}}' in server.runs[0]["config"]
    assert [(row["_step"], row["train/loss"], row["overlap/hidden_ratio"]) for row in server.history] == [
        (10, 0.1, 0.5),
        (20, 0.05, 0.5),
    ]
    assert server.history[1]["eval/accuracy"] == 0.8125
    assert files_with_key(folder) == []


def test_workers_that_start_again_go_on_with_the_run_that_they_had(monkeypatch, server, build):
    use(monkeypatch, server.url)
    build(PATIENT).close()
    (first,) = {run["name"] for run in server.runs}
    build(PATIENT).close()
    assert {run["name"] for run in server.runs} == {first}


def test_every_folder_has_a_run_of_its_own(monkeypatch, tmp_path: Path, server):
    use(monkeypatch, server.url)
    writers = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        writers.append(Wandb(finish_timeout_s=PATIENT).build(tmp_path / name, CONFIG, 30, 0))
    for writer in writers:
        writer.close()
    assert len({run["name"] for run in server.runs}) == 2


@pytest.mark.parametrize("fault", ["nobody listens", "always busy", "takes no metrics"])
def test_a_server_that_never_comes_round_costs_the_limit_and_one_line(
    monkeypatch, folder: Path, server, build, said, fault: str
):
    use(monkeypatch, nowhere() if fault == "nobody listens" else server.url)
    if fault == "always busy":
        server.nonsense = (500, "<html>Internal Server Error</html>")
    if fault == "takes no metrics":
        server.uploads.clear()
    writer = build(HASTY)
    write_some(writer)
    if fault == "always busy":
        assert server.asked.wait(PATIENT)
    if fault == "takes no metrics":
        assert server.started.wait(PATIENT)
    writer.close()
    assert writer._process.poll() is not None
    warnings = [line for line in said() if not line.startswith("wandb: online at ")]
    assert warnings == [f"wandb: not done after 1 s, so it is ended; {KEPT}"]
    assert files_with_key(folder) == []


@pytest.mark.parametrize("nonsense", [(200, "<html>Welcome</html>"), (200, "[]"), (401, "no"), (404, "{}")])
def test_a_server_that_answers_nonsense_costs_one_line(monkeypatch, folder, server, build, said, nonsense):
    use(monkeypatch, server.url)
    server.nonsense = nonsense
    writer = build(PATIENT)
    write_some(writer)
    writer.close()
    (line,) = said()
    assert line.startswith("wandb: stopped (")
    assert line.endswith(f"); training goes on, and {KEPT}")
    assert files_with_key(folder) == []


def test_online_without_a_key_costs_one_line(build, said):
    writer = build(PATIENT, mode="online")
    write_some(writer)
    writer.close()
    (line,) = said()
    assert line.startswith("wandb: stopped (No API key configured")


@pytest.mark.parametrize("written_after", [True, False])
def test_a_tracker_that_is_killed_costs_one_line(monkeypatch, server, build, said, written_after: bool):
    use(monkeypatch, server.url)
    writer = build(PATIENT)
    write_some(writer)
    assert server.started.wait(PATIENT)
    os.killpg(writer._process.pid, signal.SIGKILL)
    if written_after:
        write_some(writer)
    writer.close()
    warnings = [line for line in said() if not line.startswith("wandb: online at ")]
    assert warnings == [f"wandb: its process ended early; {KEPT}"]


def test_writing_never_waits_for_a_tracker_that_stands_still(build, said):
    writer = build(HASTY)
    os.killpg(writer._process.pid, signal.SIGSTOP)
    for step in range(5000):  # many times what a pipe holds
        writer.write(step, {"train/loss": 1.0, "speed/step_ms": 1.0})
    writer.close()
    assert said() == [f"wandb: not done after 1 s, so it is ended; {KEPT}"]


def test_a_tracker_does_not_outlive_a_killed_trainer_for_long(monkeypatch, folder: Path, server):
    use(monkeypatch, server.url)
    server.uploads.clear()
    trainer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import pathlib, sys\n"
            "from trainer.logger.wandb import Wandb\n"
            f"writer = Wandb(finish_timeout_s={HASTY}).build(pathlib.Path({str(folder)!r}), {CONFIG}, 30, 0)\n"
            "writer.write(10, {'train/loss': 1.0})\n"
            "print(writer._process.pid, flush=True)\n"
            "sys.stdin.read()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with trainer:
        tracker = os.pidfd_open(int(trainer.stdout.readline()))
        assert server.started.wait(PATIENT)
        trainer.kill()
    ended, _, _ = select.select([tracker], [], [], PATIENT)
    os.close(tracker)
    assert ended == [tracker]


SERVER = "https://wandb.example:8080"


@pytest.mark.parametrize(
    ("environment", "netrc", "found"),
    [
        ({}, None, False),
        ({"WANDB_API_KEY": KEY}, None, True),
        ({"WANDB_API_KEY": ""}, None, False),
        ({"WANDB_IDENTITY_TOKEN_FILE": "/token"}, None, True),
        ({}, "machine wandb.example:8080 login user password secret", True),
        ({}, "machine wandb.example login user password secret", False),
        ({}, "machine api.wandb.ai login user password secret", False),
        ({}, "machine wandb.example:8080 login", False),
    ],
)
def test_a_key_is_found_where_the_client_would_look(tmp_path: Path, environment, netrc, found: bool):
    if netrc is not None:
        (tmp_path / "home" / ".netrc").write_text(netrc)
    assert has_key(environment, SERVER) == found


def test_the_netrc_file_may_be_elsewhere(tmp_path: Path):
    (tmp_path / "keys").write_text("machine wandb.example:8080 login user password secret")
    assert has_key({"NETRC": str(tmp_path / "keys")}, SERVER)
    assert not has_key({"NETRC": str(tmp_path / "nothing")}, SERVER)

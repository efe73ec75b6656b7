"""Real labs: made, measured, used, changed, broken and removed. Needs root on Linux with iproute2."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.lab import hosts, state
from trainer.lab.command_line import main
from trainer.lab.layout import lab_of

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("tc") is None,
    reason="network namespaces need root on Linux, with iproute2",
)
NETLAB = Path(__file__).parent.parent.parent / "scripts" / "netlab"
# Makes standard input the controlling terminal of a new session, and becomes a command.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
NAME = f"test{os.getpid()}"
UP = ("up", "--hosts", "2", "--rate", "200mbit", "--no-check")
ONCE = ("--hosts", "2", "--rate", "200mbit", "--no-check", "run")


def netlab(verb: str, *words: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
    """Run scripts/netlab on the lab of these tests; `words` may be the whole of a one-shot after `verb`."""
    command = [str(NETLAB), "--name", name, verb, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/")


def kernel_says() -> tuple[set[str], set[str]]:
    """All namespaces and all links, without the labs that others may be using meanwhile."""
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
    names = {line.split()[0] for line in spaces}
    ours = {name for name in names if (lab_of(name) or "").startswith(NAME) or lab_of(name) is None}
    return ours, {link["ifname"] for link in links}


def processes_with(word: str) -> list[int]:
    """The processes that have `word` among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = kernel_says()
    yield
    for name in (NAME, f"{NAME}-b"):
        netlab("down", name=name)
        shutil.rmtree(state.FOLDER / name, ignore_errors=True)
    assert kernel_says() == before


def test_up_measures_rate_changes_and_down_leaves_nothing():
    before = kernel_says()
    made = netlab("up", "--hosts", "2", "--rate", "200mbit")
    assert made.returncode == 0
    assert 0.9 < int(re.search(r"(\d+)% of 200mbit", made.stderr)[1]) / 100 < 1.1
    assert "round trip" in made.stderr
    assert len(kernel_says()[0] - before[0]) == 3

    changed = netlab("rate", "50mbit")
    assert changed.returncode == 0
    assert 0.9 < int(re.search(r"(\d+)% of 50mbit", changed.stderr)[1]) / 100 < 1.1
    queue = subprocess.run(["tc", "-n", f"netlab-{NAME}-0", "qdisc"], capture_output=True, text=True).stdout
    # A millisecond's worth: with 256 KB, the first quarter of a megabyte after each pause would cost nothing.
    assert re.search(r"tbf .* rate 50Mbit burst 62\d\db lat 50", queue)

    shown = netlab("status")
    assert shown.returncode == 0
    assert f"lab '{NAME}': 2 hosts, 50mbit each way, 10." in shown.stdout
    assert len(shown.stdout.splitlines()) == 3

    assert netlab("down").returncode == 0
    assert kernel_says() == before
    again = netlab("down")
    assert (again.returncode, again.stderr) == (0, f"netlab: there is no lab '{NAME}'\n")


def test_unshaped_links_are_only_reported():
    made = netlab("up", "--hosts", "2", "--rate", "none")
    assert re.search(r"host 1 to host 0: .*bit/s, round trip \d+ us$", made.stderr.strip())
    assert netlab("rate", "1gbit", "--no-check").returncode == 0
    assert netlab("rate", "none", "--no-check").returncode == 0
    assert "tbf" not in subprocess.run(["tc", "-n", f"netlab-{NAME}-0", "qdisc"], capture_output=True, text=True).stdout


def test_up_again_changes_nothing_and_refuses_another_shape():
    netlab(*UP)
    before = kernel_says()
    again = netlab("up", "--hosts", "2", "--rate", "200000kbit")
    assert again.returncode == 0
    assert "stays as it is" in again.stderr
    other = netlab("up", "--hosts", "3", "--rate", "200mbit")
    assert other.returncode == 2
    assert other.stderr.startswith(f"up: lab '{NAME}' is up with another shape (2 hosts")
    assert other.stderr.endswith(f"netlab down --name {NAME}\n")
    once = netlab(*ONCE, "--", "true")
    assert once.returncode == 2
    assert "is there already" in once.stderr
    assert kernel_says() == before


@pytest.mark.parametrize("lost", ["namespace", "file", "link"])
def test_a_lab_killed_half_way_up_is_noticed_made_afresh_or_removed(lost):
    netlab(*UP)

    def damage() -> None:
        if lost == "namespace":
            subprocess.run(["ip", "netns", "delete", f"netlab-{NAME}-1"], check=True)
        elif lost == "file":
            (state.FOLDER / f"{NAME}.json").unlink()
        else:
            subprocess.run(["ip", "-n", f"netlab-{NAME}-0", "link", "set", "eth0", "down"], check=True)

    damage()
    assert "netlab up makes it afresh" in netlab("status").stdout
    assert netlab("run", "--", "true").returncode == 2
    assert "half-made" in netlab(*UP).stderr
    assert netlab("run", "--", "true").returncode == 0
    damage()
    assert f"lab '{NAME}' is removed" in netlab("down").stderr


def test_what_tc_refuses_is_passed_on_and_leaves_nothing():
    before = kernel_says()
    refused = netlab("up", "--hosts", "2", "--rate", "1furlong")
    assert refused.returncode == 2
    assert refused.stderr.startswith("--rate: tc refuses 1furlong (")
    assert refused.stderr.count("\n") == 1
    assert kernel_says() == before
    netlab(*UP)
    assert netlab("rate", "fast").returncode == 2
    assert "200mbit" in netlab("status").stdout


def test_labs_stand_side_by_side_in_subnets_of_their_own():
    netlab(*UP)
    assert netlab(*UP, name=f"{NAME}-b").returncode == 0
    one, other = state.read(NAME), state.read(f"{NAME}-b")
    assert one.subnet != other.subnet
    netlab("down", name=f"{NAME}-b")
    taken = netlab(*UP, "--subnet", str(one.subnet), name=f"{NAME}-b")
    assert taken.returncode == 2
    assert taken.stderr.startswith(f"--subnet: {one.subnet} is in use")


def test_run_without_a_lab():
    refused = netlab("run", "--", "true")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"run: there is no lab '{NAME}'")


TALK = """
import os, socket, sys
host, address = os.environ["NETLAB_HOST"], (os.environ["NETLAB_MASTER_ADDR"], int(os.environ["NETLAB_MASTER_PORT"]))
if host == "0":
    server = socket.create_server(address)
    open(sys.argv[1], "w").close()
    connection, peer = server.accept()
    print(peer[0], connection.recv(100).decode(), flush=True)
else:
    open(sys.argv[1]).close()
    stamp = os.environ["TRAINER_STARTED"]
    socket.create_connection(address).sendall(f"hello from {host}".encode())
    print("sent")
"""


def test_hosts_reach_each_other_and_host_0_has_the_terminal(tmp_path):
    os.mkfifo(tmp_path / "listening")
    done = netlab(*ONCE, "--", sys.executable, "-c", TALK, str(tmp_path / "listening"))
    assert done.returncode == 0
    assert re.fullmatch(r"10\.\d+\.\d+\.102 hello from 1\n", done.stdout)
    assert state.log_path(NAME, 1).read_text() == "sent\n"


def test_a_failed_hosts_code_and_log_are_shown():
    failing = "import os, sys; print('alas'); sys.exit(3 * int(os.environ['NETLAB_HOST']))"
    done = netlab(*ONCE, "--", sys.executable, "-c", failing)
    assert done.returncode == 3
    assert done.stdout == "alas\n"
    assert f"host 1 ended with code 3; the end of {state.log_path(NAME, 1)}:\n  alas\n" in done.stderr


def test_hosts_that_outlive_a_failed_one_are_ended(monkeypatch, capfd):
    monkeypatch.setattr(hosts, "FAILED_S", 0.1)
    monkeypatch.setattr(hosts, "OBEY_S", 0.1)
    stubborn = "trap '' TERM; test $NETLAB_HOST = 1 && exit 5; while true; do sleep 60; done"
    assert main(["--name", NAME, *ONCE, "--", "sh", "-c", stubborn]) == 5
    told = capfd.readouterr().err
    assert told.index("host 1 ended with code 5") < told.index("host 0 ended with code 137")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_a_one_shot_leaves_no_process_and_no_namespace(number):
    before, marker = kernel_says(), f"31536{os.getpid()}"
    # One in the host's group, one that left it, and the shell.
    command = f"sleep {marker} & setsid sleep {marker} & echo started; wait"
    words = [str(NETLAB), "--name", NAME, *ONCE, "--", "sh", "-c", command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        assert process.wait(20) == 128 + number
    assert processes_with(marker) == []
    assert kernel_says() == before


def test_the_cores_are_shared_out_over_threads_and_not_over_hosts():
    # Linux shares them out over sessions first; field 6 is the session.
    done = netlab(*ONCE, "--", "sh", "-c", "cut -d ' ' -f 6 /proc/self/stat")
    assert {done.stdout, state.log_path(NAME, 1).read_text()} == {f"{os.getsid(0)}\n"}


def test_reading_from_the_terminal_fails_and_stops_no_host():
    controller, terminal = pty.openpty()
    command = [str(NETLAB), "--name", NAME, *ONCE, "--", "sh", "-c", "read line; echo $?"]
    # As a shell starts it: the terminal is its session's, and its group is in the foreground.
    words = [sys.executable, "-c", TAKE_TERMINAL, *command]
    done = subprocess.run(
        words, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, start_new_session=True
    )
    os.close(controller)
    os.close(terminal)
    assert (done.returncode, done.stdout) == (0, b"1\n")


def test_what_a_command_leaves_running_is_ended():
    marker = f"31537{os.getpid()}"
    done = netlab(*ONCE, "--", "sh", "-c", f"setsid sleep {marker} >/dev/null 2>&1 &")
    assert done.returncode == 0
    assert processes_with(marker) == []


def test_down_ends_what_runs_in_the_lab_and_a_second_run_is_refused():
    netlab(*UP)
    words = [str(NETLAB), "--name", NAME, "run", "--", "sh", "-c", "echo started; exec sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "started\n"
        second = netlab("run", "--", "true")
        assert second.returncode == 2
        assert second.stderr.startswith(f"run: another run uses lab '{NAME}'")
        assert netlab("down").returncode == 0
        assert process.wait(20) == 128 + signal.SIGTERM

"""Who hears the signals that stop a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from trainer import signals

SAYS = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []) & {10, 12, 15} == {10, 12, 15})"


def test_programs_started_deaf_stay_so_and_this_process_does_not():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with signals.deaf_children():
        deaf = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True).stdout
    heard = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True).stdout
    assert (deaf, heard) == ("True\n", "False\n")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_signal_that_comes_meanwhile_is_not_lost():
    program = "from trainer import signals; import os\nwith signals.deaf_children():\n"
    program += "    os.kill(os.getpid(), 15); print('deaf', flush=True)\nprint('went on')"
    done = _run(program)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "deaf\n")


def test_what_a_deaf_process_forks_hears():
    program = "from trainer import signals; import os\nwith signals.deaf_children():\n"
    program += f"    signals.hear_after_fork(); {SAYS}\n    if not os.fork(): {SAYS}; os._exit(0)\n    os.wait()"
    assert _run(program).stdout == "True\nFalse\n"


def test_the_process_that_workers_are_forked_from_is_deaf():
    program = "from trainer import nursery; from multiprocessing import forkserver, resource_tracker\n"
    program += "nursery.open_early()\n"
    program += "for each in forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid:\n"
    program += "    lines = dict(line.split(':', 1) for line in open(f'/proc/{each}/status'))\n"
    program += "    deaf = int(lines['SigBlk'], 16) | int(lines['SigIgn'], 16)\n"
    program += "    print([bool(deaf >> number - 1 & 1) for number in (10, 12, 15)])\n"
    program += "nursery.close()"
    assert _run(program).stdout == "[True, True, True]\n" * 2


def _run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

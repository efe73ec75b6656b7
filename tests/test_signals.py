"""Who hears the signals that stop a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from trainer import signals

SAYS = "import signal; print([signal.getsignal(n) == signal.SIG_IGN for n in (10, 12, 15)])"


def test_programs_started_deaf_stay_so_and_this_process_does_not():
    before = [signal.getsignal(number) for number in signals.STOPPING]
    with signals.deaf_children():
        deaf = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True).stdout
    heard = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True).stdout
    assert (deaf, heard) == ("[True, True, True]\n", "[False, False, False]\n")
    assert [signal.getsignal(number) for number in signals.STOPPING] == before


def test_what_a_deaf_process_forks_hears():
    program = f"from trainer import signals; signals.ignore_stopping(); signals.hear_after_fork(); import os; {SAYS}\n"
    program += f"if not os.fork(): {SAYS}; os._exit(0)\nos.wait()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert said.stdout == "[True, True, True]\n[False, False, False]\n", said.stderr

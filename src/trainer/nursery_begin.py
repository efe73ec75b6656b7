"""What the nursery loads before anything else: a signal to all processes of a run must not end it under its workers."""

from trainer import signals

# The standard library's own server has seen to Ctrl-C.
signals.serve_and_fork()

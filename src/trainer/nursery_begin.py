"""What the nursery loads before anything else: it is deaf to signals, so that none ends it under its workers."""

from trainer import signals

signals.hear_after_fork()

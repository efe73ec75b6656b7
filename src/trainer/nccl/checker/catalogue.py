"""All rules."""

from __future__ import annotations

from trainer.nccl.checker.rule import Rule
from trainer.nccl.checker.rules import (
    algorithms,
    channels,
    devices,
    fabric,
    gloo,
    gpu_paths,
    interfaces,
    logs_and_files,
    names,
    process_groups,
    ranks,
    texts,
    transports,
)

RULES: tuple[Rule, ...] = (
    *names.RULES,
    *texts.RULES,
    *transports.RULES,
    *gpu_paths.RULES,
    *interfaces.RULES,
    *gloo.RULES,
    *devices.RULES,
    *fabric.RULES,
    *algorithms.RULES,
    *channels.RULES,
    *logs_and_files.RULES,
    *process_groups.RULES,
    *ranks.RULES,
)

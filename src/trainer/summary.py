"""The table at the end of a run."""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.table import Table

from trainer.logger.base import Metrics
from trainer.run import Run

ROWS = {
    "accuracy": ("eval/accuracy", "{:.2%}"),
    "loss (evaluation)": ("eval/loss", "{:.4f}"),
    "loss (training)": ("train/loss", "{:.4f}"),
    "samples/s": ("speed/samples_per_s", "{:.0f}"),
    "step": ("speed/step_ms", "{:.1f} ms"),
    "  waiting for data": ("speed/data_wait_ms", "{:.1f} ms"),
    "  forward": ("speed/forward_ms", "{:.1f} ms"),
    "  backward": ("speed/backward_ms", "{:.1f} ms"),
    "  waiting for activations": ("overlap/wait_activations_ms", "{:.1f} ms"),
    "  waiting for their gradients": ("overlap/wait_gradients_ms", "{:.1f} ms"),
    "  exposed communication": ("overlap/exposed_ms", "{:.1f} ms"),
    "  exposed sums of shared layers": ("overlap/exposed_tensor_ms", "{:.1f} ms"),
    "  optimizer": ("speed/optimizer_ms", "{:.1f} ms"),
    "pipeline bubble": ("overlap/bubble_share", "{:.0%}"),
    "communication": ("overlap/comm_ms", "{:.1f} ms"),
    "hidden": ("overlap/hidden_ratio", "{:.0%}"),
    "  waiting for slower ranks": ("overlap/wait_for_peers_ms", "{:.1f} ms"),
    "  slowing computation": ("overlap/slowdown", "{:.2f} x"),
    "  hidden, by steps without": ("overlap/ablation_hidden_ratio", "{:.0%}"),
    "  exposed, by steps without": ("overlap/ablation_exposed_ms", "{:.1f} ms"),
    "  encoding and decoding": ("comm/encode_ms", "{:.1f} ms"),
    "compression": ("comm/compression_ratio", "{:.1f} x"),
    "memory of residuals": ("comm/residual_mb", "{:,.1f} MiB a rank"),
    "sent per rank and step": ("comm/bytes_sent", "{:,.0f} bytes"),
    "  in sums of shared layers": ("tensor/bytes_sent", "{:,.0f} bytes"),
    "  to neighbouring stages": ("pipeline/bytes_sent", "{:,.0f} bytes"),
}


def print_summary(run: Run, done: int, total: int, history: list[Metrics], lines: list[str]) -> None:
    """Print results as they ended, times as the median of what was logged, without the first, which warms up, and bytes
    as the mean.

    `lines` are what else there is to say.
    """
    table = Table(title=f"{run.name}: {done} of {total} steps", show_header=False, title_justify="left")
    for label, (key, form) in ROWS.items():
        values = [metrics[key] for metrics in history if key in metrics]
        if not values:
            continue
        if key.startswith(("eval/", "train/")):
            value = values[-1]
        elif key.endswith("bytes_sent"):
            # Some rules send now and then only.
            value = statistics.mean(values)
        else:
            value = statistics.median(values[1:] or values)
        table.add_row(label, form.format(value))
    console = Console(soft_wrap=True)
    console.print(table)
    print(*lines, f"run folder: {run.folder}", sep="\n", flush=True)

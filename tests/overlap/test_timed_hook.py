"""A hook's buckets, and the exchanges within them, as the meter sees them."""

from __future__ import annotations

import torch
from torch import nn

from trainer.comm.int8 import Int8
from trainer.mesh import Mesh
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter, PastStep
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate


def _step(mesh: Mesh) -> PastStep:
    meter, group, comm = Meter(HostClock()), mesh.groups["data"], Int8(min_numel=1)
    state, hook = comm.build(group)
    comm.observe(state, meter.exchange)
    timed = Timed(meter, state, hook, lambda nbytes: comm.bytes_sent(state, nbytes, mesh.sizes["data"]))
    net = replicate(nn.Linear(512, 2, bias=False), DataAxis(), group, timed, timed_hook)
    meter.begin_step()
    net(torch.randn(4, 512)).sum().backward()
    meter.end_step()
    comm.close(state)
    # The bucket's callback may run a moment after the backward pass has seen it arrive.
    while not (steps := meter.read()):
        pass
    return steps[0]


def test_a_bucket_holds_the_exchanges_of_its_hook(workers):
    for step in workers(2, _step):
        (bucket,) = [span for span in step.spans if span.lane == "comm"]
        assert (bucket.name, bucket.size) == ("bucket 0", 4 * 1024)
        exchanges = [span for span in step.spans if span.lane == "exchange"]
        assert exchanges
        assert bucket.bytes == sum(span.bytes for span in exchanges) == step.sums["bytes"]
        assert all(bucket.start <= span.start <= span.end <= bucket.end for span in exchanges)
        assert 0 < step.sums["exchange"] < step.sums["comm"]
        assert "all-gather of quantised means" in {span.name for span in exchanges}

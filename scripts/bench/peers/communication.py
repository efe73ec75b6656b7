"""The floor of communication alone: all-reduces of the buckets that DDP makes, and nothing else."""

# No future annotations here: DDP inspects the annotations of a hook and refuses strings.

import torch
import torch.distributed as dist

from scripts.bench.harness import Bare
from scripts.bench.peers import hand
from scripts.bench.task import Task
from trainer.comm.noop import noop


def build(task: Task) -> Bare:
    buffers = [torch.zeros(numel, device=task.device) for numel in bucket_sizes(task)]

    def step() -> None:
        works = [dist.all_reduce(buffer, group=task.group, async_op=True) for buffer in buffers]
        for work in works:
            work.wait()

    return Bare(step)


def bucket_sizes(task: Task) -> list[int]:
    """Elements of each bucket, in the order in which they travel, as DDP cuts them after its first step."""
    sizes: dict[int, int] = {}

    def record(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sizes[bucket.index()] = bucket.buffer().numel()
        return noop(group, bucket)

    model = hand.wrap(task)
    model.register_comm_hook(task.group, record)
    stepper = hand.loop(task, model)
    stepper.step()
    sizes.clear()
    stepper.step()
    return [sizes[index] for index in sorted(sizes)]

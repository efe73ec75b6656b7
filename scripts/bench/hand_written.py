"""The reference: data-parallel training written by hand as PyTorch's documentation does; also a script for torchrun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


def train(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    loss_function: Callable[[Tensor, Tensor], Tensor],
    dataset: Dataset,
    batch: int,
    seed: int,
    device: torch.device,
) -> Iterator[Tensor]:
    """Train for ever, one step at each `next`; `batch` is a rank's."""
    sampler: DistributedSampler = DistributedSampler(dataset, seed=seed, drop_last=True)
    loader = DataLoader(dataset, batch_size=batch, sampler=sampler, drop_last=True, pin_memory=device.type == "cuda")
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = loss_function(model(inputs), targets)
            loss.backward()
            optimizer.step()
            yield loss.detach()
        epoch += 1


def main() -> None:
    """ResNet-18 on digits under torchrun, a line a step: what `python train.py` does by default."""
    import numpy as np
    import torchvision

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    with np.load(Path(__file__).parents[2] / "src" / "trainer" / "data" / "digits.npz") as stored:
        images = torch.from_numpy(stored["images"]).float().div_(16).unsqueeze_(1)
        dataset = TensorDataset(images, torch.from_numpy(stored["labels"]).long())
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.Identity()
    model = DistributedDataParallel(net.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    share = 64 // dist.get_world_size()
    for step, loss in enumerate(train(model, optimizer, nn.CrossEntropyLoss(), dataset, share, 0, device), 1):
        if dist.get_rank() == 0:
            print(f"step {step}  loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()

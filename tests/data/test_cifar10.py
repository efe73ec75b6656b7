"""CIFAR-10 is read from its own archive, here a tiny one of the same form."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10

from trainer.data.cifar10 import MEAN, STD, Cifar10
from trainer.sample import Sample
from trainer.spec import ConfigError

A_BATCH = 4


def write(path: Path, content: dict) -> list[str]:
    """Pickle `content`; the file's name and checksum, as torchvision lists them."""
    path.write_bytes(pickle.dumps(content))
    return [path.name, hashlib.md5(path.read_bytes()).hexdigest()]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six files of four one-coloured images: image i of file f has the label f + i, and 20 times that as its colour."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    listed = []
    for number, name in enumerate(["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"]):
        listed.append(write(folder / name, batch(number)))
    monkeypatch.setattr(CIFAR10, "train_list", listed)
    monkeypatch.setattr(CIFAR10, "test_list", [write(folder / "test_batch", batch(5))])
    filename, md5 = write(folder / "batches.meta", {"label_names": [f"class {i}" for i in range(10)]})
    monkeypatch.setattr(CIFAR10, "meta", {"filename": filename, "key": "label_names", "md5": md5})
    return tmp_path


def batch(number: int) -> dict:
    labels = [number + index for index in range(A_BATCH)]
    return {"data": np.repeat(np.array(labels, np.uint8)[:, None] * 20, 3 * 32 * 32, axis=1), "labels": labels}


def colour(image: torch.Tensor) -> torch.Tensor:
    """The centre pixel as it was in the file; crops and flips do not change it."""
    return (image[:, 16, 16] * torch.tensor(STD) + torch.tensor(MEAN)) * 255


def test_it_announces_the_real_archive():
    assert Cifar10().sample() == Sample("image", (3, 32, 32), 10)
    assert Cifar10().count() == 50_000


def test_every_image_is_scaled_and_has_its_label(root: Path):
    split = Cifar10(root=root).build(0)
    assert (len(split.train), len(split.evaluation)) == (5 * A_BATCH, A_BATCH)
    for part, first in ((split.train, 0), (split.evaluation, 5)):
        for index in range(len(part)):
            image, label = part[index]
            assert label == first + index // A_BATCH + index % A_BATCH
            assert image.shape == (3, 32, 32)
            torch.testing.assert_close(colour(image), torch.full((3,), label * 20.0), atol=0.01, rtol=0)


def test_training_images_are_cropped_at_random_and_evaluated_ones_are_not(root: Path):
    split = Cifar10(root=root).build(0)
    torch.manual_seed(0)
    assert len({split.train[7][0].numpy().tobytes() for _ in range(8)}) > 1
    assert len({split.evaluation[3][0].numpy().tobytes() for _ in range(8)}) == 1


def test_a_missing_archive_is_refused(make_run, tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        make_run("data=cifar10", f"data.root={tmp_path}")
    assert str(caught.value) == (
        f"data.root: {tmp_path} has no folder cifar-10-batches-py; set data.download=true to fetch it, or"
        " data.root=<folder that has it>"
    )


def test_a_damaged_archive_is_refused(make_run, root: Path):
    (root / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"half a down")
    with pytest.raises(ConfigError) as caught:
        make_run("data=cifar10", f"data.root={root}")
    assert str(caught.value).startswith(f"data.root: {root / 'cifar-10-batches-py'} is damaged")


def test_a_download_that_fails_is_refused(make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_network(_: CIFAR10) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(CIFAR10, "download", no_network)
    with pytest.raises(ConfigError) as caught:
        make_run("data=cifar10", f"data.root={tmp_path}", "data.download=true")
    assert str(caught.value).startswith(
        f"data.download: cannot fetch CIFAR-10 into {tmp_path} (Network is unreachable)"
    )


def test_a_whole_archive_resolves(make_run, root: Path):
    assert make_run("data=cifar10", f"data.root={root}").data.root == root

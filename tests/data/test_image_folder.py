"""Folders of images: one class a folder, read, cropped and scaled, with every fault named by its path."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from trainer.data.image_folder import MEAN, STD, ImageFolder, read_image
from trainer.sample import Sample
from trainer.spec import ConfigError

GREY = (torch.full((3,), 128 / 255) - torch.tensor(MEAN)) / torch.tensor(STD)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Cats (dark) and dogs (grey) to train on; dogs and one cat to evaluate, in sizes of their own."""
    for part, name, number, size in (
        ("train", "cat", 2, (40, 30)),
        ("train", "dog", 2, (30, 40)),
        ("val", "cat", 1, (20, 50)),
        ("val", "dog", 2, (50, 20)),
    ):
        folder = tmp_path / part / name
        folder.mkdir(parents=True)
        for index in range(number):
            Image.new("L", size, 128 if name == "dog" else 10).save(folder / f"{index}.png")
    return tmp_path


def refusal(make_run, root: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        make_run("data=image_folder", f"data.root={root}", "data.size=16", "batch.size=2")
    return str(caught.value)


def test_it_says_how_many_samples_of_which_shape_there_are(root: Path):
    data = ImageFolder(root=root, size=16)
    assert data.sample() == Sample("image", (3, 16, 16), 2)
    assert data.count() == len(data.build(0).train) == 4
    assert len(data.build(0).evaluation) == 3


def test_every_image_is_a_scaled_square_with_its_class(root: Path):
    split = ImageFolder(root=root, size=16).build(0)
    for part in split:
        for image, label in part:
            assert image.shape == (3, 16, 16)
            assert image.dtype == torch.float32
            assert torch.allclose(image.mean(dim=(1, 2)), GREY, atol=0.02) == (label == 1)


def test_classes_keep_the_numbers_of_train_where_val_lacks_one(make_run, root: Path):
    (root / "val" / "cat" / "0.png").unlink()
    (root / "val" / "cat").rmdir()
    data = make_run("data=image_folder", f"data.root={root}", "data.size=16", "batch.size=2").data
    assert [label for _, label in data.build(0).evaluation] == [1, 1]


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_missing_folder_is_refused(make_run, root: Path, part: str):
    (root / part).rename(root / "elsewhere")
    assert refusal(make_run, root) == (
        f"data.root: there is no folder {root / part}; set data.root=<folder with train/ and val/>"
    )


def test_a_folder_without_classes_is_refused(make_run, root: Path, tmp_path: Path):
    (root / "val").rename(tmp_path / "old")
    (root / "val").mkdir()
    assert refusal(make_run, root) == (
        f"data.root: {root / 'val'} has no folder a class; put images in {root / 'val'}/<class>/"
    )


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_class_without_images_is_refused(make_run, root: Path, part: str):
    for name in ("train", "val"):
        (root / name / "eel").mkdir()
    other = "val" if part == "train" else "train"
    Image.new("L", (20, 20)).save(root / other / "eel" / "0.png")
    message = refusal(make_run, root)
    assert message.startswith("data.root: Found no valid file for the classes eel.")
    assert message.endswith("; put images there")


def test_a_class_that_only_val_has_is_refused(make_run, root: Path):
    (root / "val" / "eel").mkdir()
    assert refusal(make_run, root) == (
        f"data.root: {root / 'val'} has the class 'eel', which train lacks; the folders must match"
    )


@pytest.mark.parametrize("damage", ["cut", "no image"])
def test_an_image_that_cannot_be_read_is_named_by_its_path(root: Path, damage: str):
    path = root / "train" / "cat" / "1.png"
    Image.effect_noise((200, 200), 50).save(path)
    path.write_bytes(path.read_bytes()[:5000] if damage == "cut" else b"GIF89a, or so it says")
    with pytest.raises(ConfigError) as caught:
        ImageFolder(root=root, size=16).build(0).train[1]
    message = str(caught.value)
    assert message.startswith(f"data: cannot read the image {path} (")
    assert message.endswith("); repair or remove the file")


def test_images_of_every_mode_become_rgb(tmp_path: Path):
    for mode, suffix in (("L", "png"), ("RGBA", "png"), ("P", "gif"), ("CMYK", "jpg"), ("1", "png")):
        path = tmp_path / f"{mode}.{suffix}"
        Image.new(mode, (5, 4)).save(path)
        image = read_image(str(path))
        assert (image.mode, image.size) == ("RGB", (5, 4))


def test_a_missing_root_is_asked_for(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("data=image_folder")
    assert str(caught.value) == "data.root: no value is given; set data.root=<value>"

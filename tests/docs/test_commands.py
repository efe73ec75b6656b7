"""Every command in the docs does what they say: it is parsed, composed and resolved, and what is refused is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.docs.extract import PAGES, ROOT, Command, blocks, in_blocks, in_text
from tests.docs.judges import Wrong, judge
from tests.tune.made_up import profile
from trainer.tune.profile import write

# Where the docs have a profile.json.
PROFILE = Path("runs/digits/2026-11-30_10-00-00-000000/profile.json")
COMMANDS = [command for page in PAGES for command in [*in_blocks(page), *in_text(page)]]


@pytest.fixture(autouse=True)
def _reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of one who follows the docs: without GPUs, with the files that they say one has."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(_mine())
    (tmp_path / "cluster.env").write_text("NCCL_DEBUG=WARN\n")
    for folder in ("shared/presets/experiment/team", "home/me/presets/experiment", PROFILE.parent):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "shared/presets/experiment/team/h100_ib.yaml").write_text("# @package _global_\nprecision: bf16\n")
    write(tmp_path / PROFILE, profile())
    # The sweep that docs/sweeps.md goes on with, as this test asks for it.
    sweep = tmp_path / "runs/digits/2026-11-29_18-15-04-026312"
    sweep.mkdir(parents=True)
    (sweep / "grid.json").write_text("{}")


def _mine() -> str:
    """The file that the README tells to write."""
    (block,) = (block for block in blocks((ROOT / "README.md").read_text()) if "def net(" in "\n".join(block.lines))
    return "\n".join(block.lines)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_it_can_be_done(command: Command):
    judge(command.text, command.shown)


def test_commands_are_found():
    texts = {command.text for command in COMMANDS}
    assert len(texts) > 30
    for start in ("scripts/train", "python train.py -m", "scripts/netlab --hosts", "torchrun", "scripts/nccl check"):
        assert any(text.startswith(start) for text in texts), start


@pytest.mark.parametrize(
    ("text", "shown", "why"),
    [
        ("python train.py optimizer.lrr=3", None, "it is refused"),
        ("python train.py comm=topkk", None, "there is no comm 'topkk'"),
        ("python train.py -m comm=fp16,topkk", None, "there is no comm 'topkk'"),
        ("python train.py batch.size=63", "batch.size: 63 is odd; use 64", "it is refused"),
        ("python train.py", "batch.size: 64 is odd; use 63", "it is shown as refused, and is not"),
        ("python train.py model=mlp dry_run=true", "model: gone", "it does not print"),
        ("scripts/netlab --hosts 2 run -- python train.py", None, "--rate is missing"),
        ("scripts/netlab --hosts 2 --rate 1gbit run -- python train.py comm=topkk", None, "it is refused"),
        ("scripts/doctor", None, "the following arguments are required: RUN"),
        ("scripts/report runs/x --fast", None, "unrecognized arguments: --fast"),
        ("scripts/nccl explain NCCL_P2P_LEVELS", None, "it ends with 2"),
        ("scripts/bench/run nothing", None, "there is no table nothing"),
        ("torchrun --nproc_per_node=8 train.py comm=topkk", None, "it is refused"),
        ("srun -N 2 python train.py comm=topkk", None, "it is refused"),
        ("pip install -e '.[everything]'", None, "there is no extra everything"),
        ("python -m trainer.nothing", None, "there is no module trainer.nothing"),
        ("cd there && python train.py comm=topkk", None, "it is refused"),
        ("step 194.7 ms", None, "no test can judge 'step'; teach"),
    ],
)
def test_what_is_wrong_is_found(text: str, shown: str | None, why: str):
    with pytest.raises(Wrong) as caught:
        judge(text, shown)
    assert why in str(caught.value)


def test_a_page_is_read_as_it_is_meant(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Say `python train.py comm=fp16 …` or `comm=topk`.\n\n"
        "```\nexport B=2\npython train.py\n```\n\n"
        "```\nA=1 python train.py a=1   explained\npython train.py \\\n  b=2\n```\n\n"
        "```\n$ python train.py c=3\nc: wrong; right\n$ scripts/doctor runs/x\n```\n\n"
        "```text\npython train.py d=4\n```\n"
    )
    assert [
        (command.line, command.text, command.shown) for command in sorted(in_blocks(page), key=lambda c: c.line)
    ] == [
        (4, "export B=2", None),
        (5, "export B=2 && python train.py", None),
        (9, "A=1 python train.py a=1", None),
        (10, "python train.py b=2", None),
        (15, "python train.py c=3", "c: wrong; right"),
        (17, "scripts/doctor runs/x", ""),
    ]
    assert [(command.line, command.text) for command in in_text(page)] == [(1, "python train.py comm=fp16")]
    assert not re.search("d=4", "".join(command.text for command in in_blocks(page)))

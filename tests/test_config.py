"""Bad input ends in one line, in the launcher, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.config import explain
from trainer.spec import ConfigError

ROOT = Path(__file__).parent.parent


def sparse():
    return torch.nn.Embedding(10, 3, sparse=True)


REFUSED = {
    "+stepz=3": "stepz: unknown option; did you mean 'steps'?",
    "steps=0": "steps: 0 is not allowed: input should be greater than or equal to 1; steps is the number of optimizer"
    " steps; null trains for `epochs`",
    "epochs=null": "steps: neither steps nor epochs is set; set one of them, for example steps=1000",
    "seed=many": "seed: 'many' is not allowed: input should be a valid integer; seed is the seed of initial weights,"
    " shuffling, augmentation and dropout",
    "batch.size=63": "batch.size: 63 does not divide by 2 data ranks x 1 micro-batches; use 62 or 64",
    "batch.size=1": "batch.size: 1 does not divide by 2 data ranks x 1 micro-batches; use 2",
    "batch.microbatches=3": "batch.size: 64 does not divide by 2 data ranks x 3 micro-batches; use 60 or 66",
    "batch.size=5000": "batch.size: 5000 samples a step, but data has only 1437 to train on; use fewer",
    "parallel=none comm=topk": "comm: there is nothing to send, since there is one replica of the model; use"
    " comm=allreduce, or more processes with launch.processes=2",
    "model=custom model.factory=tests.test_config:sparse": "model.factory: tests.test_config:sparse returned a module"
    " with sparse gradients, which no hook reduces; build its embeddings with sparse=False",
    "batch=5": "batch: 5 is no set of options; set batch.size=<value>",
    "checkpoint=null": "checkpoint: None is no set of options; set checkpoint.every=<value>",
    "precision=fp8": "precision: 'fp8' is not allowed: input should be 'fp32', 'bf16' or 'fp16'; precision is the dtype"
    " of matrix products: fp32, or autocast to bf16 or fp16 with fp32 weights",
    "launch.nodes=2": "launch.rendezvous: 2 nodes need a place to meet; set launch.rendezvous=<host of node 0>:29500",
    "launch.node_rank=1": "launch.node_rank: 1 is not below launch.nodes=1; nodes are numbered from 0",
    "launch.rendezvous=host": "launch.rendezvous: 'host' has no port; write host:port, for example n0:29500",
    "model._target_=os.system": "model._target_: os.system is not a Model; name a subclass of trainer.model.base.Model",
    "model=custom": "model.factory: no value is given; set model.factory=<value>",
    "model=gpt": "model: GPT reads tokens samples, but data gives image of shape (1, 8, 8); choose another model or"
    " data",
    "data=image_folder data.root=/nowhere": "data.root: there is no folder /nowhere/val; set data.root=<folder with"
    " train/ and val/>",
    "checkpoint.resume=/nowhere": "checkpoint.resume: there is no /nowhere; give a run's folder or one of its"
    " checkpoints",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_the_refusal_says_where_what_and_what_to_do(overrides, make_run):
    with pytest.raises(ConfigError) as caught:
        make_run(*overrides.split())
    assert str(caught.value) == REFUSED[overrides]


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_must_fill_the_mesh(processes, make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("parallel.data.size=2", f"launch.processes={processes}", "batch.size=12")
    assert str(caught.value) == (
        f"parallel.data.size: 2 replicas do not fill {processes} processes; set parallel.data.size=-1, or start 2"
        " processes in all"
    )


def test_fp16_on_a_cpu_is_refused(make_run, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ConfigError) as caught:
        make_run("precision=fp16")
    assert str(caught.value) == ("precision: fp16 has no fast products on a CPU; use precision=bf16 or precision=fp32")


def test_more_workers_than_gpus_are_refused(make_run, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError) as caught:
        make_run("launch.processes=4")
    assert str(caught.value) == (
        "launch.processes: 4 workers a node, but 2 GPUs are visible; set launch.processes=2 or fewer, or hide the GPUs"
        " with CUDA_VISIBLE_DEVICES= to run on the CPU"
    )


COMMAND_LINES = {
    "optimizer.lrr=3": "optimizer.lrr: unknown option; did you mean 'optimizer.lr'?",
    "modle=vit": "modle: unknown option; did you mean 'model'?",
    "model=vit model.pach=4": "model.pach: unknown option; did you mean 'model.patch'?",
    "model=vitt": "model: there is no model 'vitt'; did you mean 'vit'?",
    "experiment=smok": "experiment: there is no experiment 'smok'; did you mean 'smoke'?",
    "tune=4": "tune: there is no tune '4'; choose from: advise, none, search, what_if",
    "logger=null": "logger: there is no logger 'null'; choose from: console, jsonl, wandb",
    "steps": "command line: Error parsing override 'steps'; write group=name or option=value",
}


@pytest.mark.parametrize("overrides", COMMAND_LINES)
def test_a_mistyped_command_line_is_told_what_was_meant(overrides, compose_error):
    words = overrides.split()
    assert explain(compose_error(*words), words, ROOT / "conf") == COMMAND_LINES[overrides]


def test_a_number_among_the_choices_of_a_sweep_is_told():
    assert explain(ValueError(), ["-m", "sync=strict,2"], ROOT / "conf") == (
        "sync: there is no sync '2'; choose from: delayed, diloco, local_sgd, next_forward, partitioned, strict"
    )


def test_an_error_that_no_choice_made_is_not_explained():
    assert explain(ValueError(), ["sync=strict", "batch.size=2"], ROOT / "conf") is None


@pytest.mark.parametrize(
    ("override", "line"), [("modle=vit", COMMAND_LINES["modle=vit"]), ("batch.size=63", REFUSED["batch.size=63"])]
)
def test_train_prints_one_line_leaves_code_2_and_nothing_else(override, line, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), override], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_the_resolved_run_and_writes_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "dry_run=true", "optimizer.lr=0.25"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "  lr: 0.25\n" in done.stdout
    assert not list(tmp_path.iterdir())

"""What the comment at the top of a saved preset says of the run."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.scene import Queue, config, over, sums, windows
from trainer.overlap.evidence import Evidence, Metrics
from trainer.preset.measured import facts, title

METRICS = [
    Metrics(step=10, **{"overlap/comm_ms": 500.0, "overlap/hidden_ratio": 0.0}),
    Metrics(step=20, **{"overlap/comm_ms": 60.0, "overlap/hidden_ratio": 0.71, "eval/accuracy": 0.5}),
    Metrics(step=25, **{"overlap/comm_ms": 60.0, "overlap/hidden_ratio": 0.71, "eval/accuracy": 0.9861}),
]
GPUS = Evidence(
    folder=Path("runs/ours"),
    config=config(
        model={"_target_": "trainer.model.vit.ViT"},
        data={"_target_": "trainer.data.cifar10.Cifar10"},
        comm={"_target_": "trainer.comm.topk.TopK"},
        sync={"_target_": "trainer.sync.strict.Strict"},
    ),
    metrics=METRICS,
    hosts=["a, node 0"] * 2 + ["b, node 1"] * 2,
    links_gbit=[100.0] * 4,
    windows=windows(*[sums()] * 4, count=2),
    devices=["NVIDIA H100"] * 4,
    software={"torch": "2.14.1+cu130", "nccl": "2.29.7"},
    date="2026-11-30",
)


def test_when_where_with_what_and_what_came_out():
    assert title(GPUS) == "vit on cifar10 with topk: the settings of a run of 4 processes on 2 hosts."
    assert facts(GPUS) == [
        "Measured on 2026-11-30 with torch 2.14.1+cu130 and NCCL 2.29.7, on 4 x NVIDIA H100 of 2 hosts (a; b) with"
        " links of 100 Gbit/s, in runs/ours.",
        "After 25 steps: accuracy 98.61 %, 100 ms a step, 71 % of 60.0 ms of communication hidden.",
    ]


def test_hosts_on_one_machine_keep_their_numbers():
    lab = GPUS._replace(hosts=["vm, node 0", "vm, node 1"], devices=["x86_64 CPU"] * 2, links_gbit=[])
    assert "on 2 x x86_64 CPU of 2 hosts (vm, node 0; vm, node 1), in runs/ours." in facts(lab)[0]


def test_the_link_is_told_where_sizes_told_it_apart():
    buckets = [(1.0, 300.0), (10.0, 400.0), (87.0, 600.0)]
    scene = over(Queue((200, 600), start_ms=0.5, mb_per_s=117), buckets, hosts=["a", "b"])
    assert facts(scene)[1].endswith(" a step, 0.936 Gbit/s of gradients a rank while they travelled.")
    alike = over(Queue((200, 600), start_ms=0.5, mb_per_s=117), buckets[-1:], hosts=["a", "b"])
    for other in (scene._replace(hosts=["a", "a"]), alike):
        assert "Gbit/s" not in facts(other)[1]


def test_hosts_are_counted_where_they_are_many():
    many = GPUS._replace(hosts=[f"h{number}" for number in range(8)], devices=["x86_64 CPU"] * 8, links_gbit=[])
    assert "on 8 x x86_64 CPU of 8 hosts, in runs/ours." in facts(many)[0]


def test_an_old_record_tells_less(tmp_path: Path):
    old = Evidence(folder=tmp_path, config=GPUS.config)
    assert facts(old) == [
        f"Measured at an unknown date, on 2 x CPU, in {tmp_path}.",
        "Nothing was measured.",
    ]


def test_a_language_model_has_a_loss():
    lines = [Metrics(step=40, **{"train/loss": 2.0, "eval/loss": 1.25})]
    assert facts(GPUS._replace(metrics=lines, windows=[]))[1] == "After 40 steps: loss 1.2500."

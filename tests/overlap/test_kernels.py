"""Events of a profile, written by hand, sorted into communication and computing."""

from __future__ import annotations

import pytest

from trainer.overlap.kernels import HOOKS, Anchor, find_anchor, on_cpu, on_gpu

# The trace's clock is ahead by 90 s and counts µs.
ANCHOR = Anchor(thread=7, ts=100e6, moment=10.0)


def event(cat: str, name: str, start: float, end: float, tid: int = 7) -> dict:
    """A span from one second to another of the host's clock."""
    return {"ph": "X", "cat": cat, "name": name, "tid": tid, "ts": (start + 90) * 1e6, "dur": (end - start) * 1e6}


def test_an_anchor_is_the_middle_of_its_span():
    events = [{"ph": "M", "name": "clock"}, event("user_annotation", "clock", 10, 12, tid=3)]
    anchor = find_anchor(events, "clock", 500.0)
    assert anchor == Anchor(3, 101e6, 500.0)
    assert anchor.seconds(103e6) == 502
    assert anchor.microseconds(502.0) == 103e6


def test_a_trace_without_its_anchor_is_refused():
    with pytest.raises(RuntimeError, match="recorded no span 'clock'"):
        find_anchor([event("cpu_op", "aten::mm", 0, 1)], "clock", 0.0)


def test_kernels_of_nccl_communicate_other_kernels_compute_and_copies_do_neither():
    work = on_gpu(
        [
            event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3, 6),
            event("kernel", "ncclSymkDevKernel_AllReduce", 5, 7),
            event("kernel", "sm90_xmma_gemm_f32f32", 0, 4),
            event("kernel", "void at::native::vectorized_elementwise_kernel", 4, 5),
            event("gpu_memcpy", "Memcpy HtoD", 8, 9),
            event("gpu_memset", "Memset", 9, 10),
            event("cpu_op", "aten::mm", 0, 20),
            event("user_annotation", "gloo:all_reduce", 0, 20),
            {"ph": "i", "cat": "kernel", "name": "an instant", "ts": 0},
        ],
        ANCHOR,
    )
    assert work == ([(3, 6), (5, 7)], [(0, 5)], [(8, 10)])


def test_gloo_communicates_and_the_training_threads_operators_compute():
    work = on_cpu(
        [
            event("user_annotation", "gloo:all_reduce", 3, 6, tid=20),
            event("user_annotation", "gloo:all_reduce", 4, 8, tid=20),
            event("cpu_op", "aten::linear", 0, 2),
            event("cpu_op", "aten::addmm", 1, 2),
            event("cpu_op", "aten::mm", 5, 7),
            event("user_annotation", "Optimizer.step#SGD.step", 0, 20),
        ],
        ANCHOR,
    )
    assert work == ([(3, 6), (4, 8)], [(0, 2), (5, 7)], [])


def test_what_a_couriers_thread_computes_hides_nothing_but_autograds_threads_do():
    encode = event("cpu_op", "aten::topk", 0, 9, tid=8)
    backward = event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 1, 2, tid=9)
    inner = event("cpu_op", "aten::mm", 3, 4, tid=9)
    assert on_cpu([encode, backward, inner], ANCHOR).compute == [(1, 2), (3, 4)]


def test_messages_between_stages_are_neither_communication_of_gradients_nor_computing():
    kernel = event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 3, 6)
    ours = kernel | {"args": {"Process Group Description": "pipeline onward"}}
    couriers = kernel | {"args": {"Process Group Description": "courier"}}
    assert on_gpu([ours, couriers], ANCHOR) == ([(3, 6)], [], [])
    training = [event("user_annotation", f"gloo:{name}", 3, 6) for name in ("send", "recv")]
    courier = [event("user_annotation", f"gloo:{name}", 4, 7, tid=20) for name in ("send", "recv")]
    assert on_cpu([*training, *courier], ANCHOR) == ([(4, 7), (4, 7)], [], [])


def test_a_hook_that_waits_for_its_collective_does_not_compute_meanwhile():
    events = [
        event("cpu_op", HOOKS, 0, 10),
        event("cpu_op", "aten::mul_", 0, 1),
        event("cpu_op", "c10d::allreduce_", 1, 2),
        event("user_annotation", "gloo:all_reduce", 1, 9, tid=20),
    ]
    assert on_cpu(events, ANCHOR).compute == [(0, 2)]

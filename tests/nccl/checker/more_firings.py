"""As `firings`, for algorithms, channels, logs, files, torch and ranks."""

from __future__ import annotations

from tests.nccl.checker.firings import OLD, TWO, Firing
from trainer.nccl.checker.context import Rank


def _two(one: dict[str, str], other: dict[str, str], nodes: tuple[str, str] = ("a", "b")) -> dict[str, object]:
    return {"ranks": (Rank(0, nodes[0], one), Rank(8, nodes[1], other))}


IFNAME = {"NCCL_SOCKET_IFNAME": "eth0"}

MORE_FIRINGS = (
    Firing("A1", "error", "NCCL_ALGO=Rings", {}, "NCCL_ALGO=RING"),
    Firing("A1", "error", "NCCL_PROTO=Simple,LL256", {}, "NCCL_PROTO=simple,LL128"),
    Firing("A1", "error", "NCCL_ALGO=alltoall:ring", {}, "NCCL_ALGO=allreduce:ring"),
    Firing("A1", "warning", "NCCL_ALGO=Ring,PAT", OLD, "NCCL_ALGO=Ring,NVLSTree"),
    Firing("A1", "warning", "NCCL_ALGO=allreduce:tree", OLD, "NCCL_ALGO=^Tree"),
    Firing("A2", "error", "NCCL_ALGO=Tree", {}, "NCCL_ALGO=allreduce:tree"),
    Firing("A2", "warning", "NCCL_ALGO=Tree", OLD, "NCCL_ALGO=Tree,Ring"),
    Firing("A3", "error", "NCCL_ALGO=^Ring", {}, "NCCL_ALGO=^Tree"),
    Firing("A3", "error", "NCCL_ALGO=broadcast:tree", {}, "NCCL_ALGO=broadcast:ring"),
    Firing("A4", "error", "NCCL_ALGO=allreduce:nvls NCCL_PROTO=LL", {}, "NCCL_ALGO=allreduce:tree NCCL_PROTO=LL"),
    Firing("A4", "error", "NCCL_ALGO=allgather:pat NCCL_PROTO=^Simple", {}, "NCCL_ALGO=allgather:pat NCCL_PROTO=^LL"),
    Firing("A5", "error", "NCCL_ALGO=Ring,NVLS NCCL_NVLS_ENABLE=0", {}, "NCCL_ALGO=^NVLS NCCL_NVLS_ENABLE=0"),
    Firing("A6", "error", "NCCL_ALGO=Ring,CollNetChain", {}, "NCCL_ALGO=Ring,CollNetChain NCCL_COLLNET_ENABLE=1"),
    Firing("A7", "error", "NCCL_ALGO=allreduce:nvlstree", {"nodes": 1}, "NCCL_ALGO=allreduce:nvlstree", TWO),
    Firing("A7", "error", "NCCL_ALGO=allreduce:nvls", TWO, "NCCL_ALGO=allreduce:nvls", {"nodes": 1}),
    Firing("A8", "error", "NCCL_ALGO=allgather:pat", {"processes": 8}, "NCCL_ALGO=allgather:pat", {"processes": 1}),
    Firing("A9", "warning", "NCCL_ALGO=Ring,Tree", {}, "NCCL_TUNER_PLUGIN=ofi"),
    Firing("A10", "warning", "NCCL_ALGO=allreduce:tree", {"nodes": 1}, "NCCL_ALGO=allreduce:tree", TWO),
    Firing("A11", "error", "NCCL_PROTO=LL128", {"ll128": False}, "NCCL_PROTO=^LL128"),
    Firing("A12", "error", "NCCL_ALGO=allreduce:tree;ring", {}, "NCCL_ALGO=ring;allreduce:tree"),
    Firing("A12", "warning", "NCCL_PROTO=ll;simple", OLD, "NCCL_PROTO=ll,simple"),
    Firing("A13", "warning", "NCCL_ALGO=Ring", {"messages": True}, "NCCL_MAX_P2P_NCHANNELS=4"),
    Firing("A14", "warning", "NCCL_ALGO=Ring,NVLS", {"deterministic": True}, "NCCL_ALGO=^NVLS,NVLSTree"),
    Firing("A15", "warning", "NCCL_NVLS_ENABLE=1 NCCL_ALGO=Ring", {}, "NCCL_NVLS_ENABLE=1 NCCL_ALGO=Ring,NVLS"),
    Firing("C1", "error", "NCCL_MIN_CTAS=32 NCCL_MAX_CTAS=16", {}, "NCCL_MIN_CTAS=16 NCCL_MAX_CTAS=16"),
    Firing("C1", "error", "NCCL_MIN_NCHANNELS=9 NCCL_MAX_NCHANNELS=8", {}, "NCCL_MIN_NCHANNELS=9"),
    Firing("C2", "warning", "NCCL_MAX_CTAS=8 NCCL_MAX_NCHANNELS=4", {}, "NCCL_MAX_CTAS=8 NCCL_MIN_NCHANNELS=4"),
    Firing("C3", "error", "NCCL_NTHREADS=480", {}, "NCCL_NTHREADS=256"),
    Firing("C3", "warning", "NCCL_NTHREADS=64", {}, "NCCL_NTHREADS=128"),
    Firing("C5", "error", "NCCL_LL128_BUFFSIZE=1000", {}, "NCCL_LL128_BUFFSIZE=122880"),
    Firing("C5", "error", "NCCL_LL_BUFFSIZE=1001", {}, "NCCL_LL_BUFFSIZE=1002"),
    Firing("C5", "warning", "NCCL_BUFFSIZE=5000000", {}, "NCCL_BUFFSIZE=8388608"),
    Firing("C6", "warning", "NCCL_P2P_NET_CHUNKSIZE=1048576", {}, "NCCL_P2P_NET_CHUNKSIZE=524288"),
    Firing("C7", "error", "NCCL_SOCKET_NTHREADS=17", {}, "NCCL_SOCKET_NTHREADS=16"),
    Firing("C7", "error", "NCCL_NSOCKS_PERTHREAD=65", {}, "NCCL_NSOCKS_PERTHREAD=64"),
    Firing(
        "C7",
        "error",
        "NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=5",
        {},
        "NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=4",
    ),
    Firing("C8", "warning", "NCCL_SOCKET_NTHREADS=4", {"net": "efa"}, "NCCL_SOCKET_NTHREADS=4", {"net": "ethernet"}),
    Firing("C9", "error", "NCCL_CTA_POLICY='ZERO|EFFICIENCY'", {}, "NCCL_CTA_POLICY='default|zero'"),
    Firing("C9", "error", "NCCL_CTA_POLICY=ZERO", {"nccl": (2, 28, 3)}, "NCCL_CTA_POLICY=2"),
    Firing("C9", "error", "NCCL_CTA_POLICY=3", {}, "NCCL_CTA_POLICY=1"),
    Firing(
        "C10", "error", "NCCL_GRAPH_STREAM_ORDERING=0", {}, "NCCL_GRAPH_STREAM_ORDERING=0 NCCL_GRAPH_MIXING_SUPPORT=0"
    ),
    Firing("C11", "warning", "NCCL_NCHANNELS_PER_NET_PEER=32", {}, "NCCL_HOSTID=a"),
    Firing("L1", "error", "NCCL_DEBUG=DEBUG", {}, "NCCL_DEBUG=warn"),
    Firing(
        "L1", "error", "NCCL_DEBUG=INFO 'NCCL_DEBUG_SUBSYS=INIT, NET'", {}, "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^init"
    ),
    Firing("L2", "warning", "NCCL_DEBUG_SUBSYS=NET", {}, "NCCL_DEBUG_SUBSYS=NET NCCL_DEBUG=INFO"),
    Firing("L2", "warning", "NCCL_DEBUG_FILE=/tmp/a", {}, "NCCL_DEBUG_FILE=/tmp/a NCCL_DEBUG=WARN"),
    Firing("L2", "warning", "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=~/a", {}, "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/home/a"),
    Firing(
        "L2",
        "warning",
        "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/nowhere/a",
        {"local": True},
        "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/nowhere/a",
        {},
    ),
    Firing(
        "L2",
        "warning",
        "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/tmp/a.%h",
        {"nodes": 2, "processes": 8},
        "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/tmp/a.%h.%p",
    ),
    Firing("L3", "warning", "NCCL_DEBUG=INFO", {}, "NCCL_DEBUG=INFO", {"diagnosing": True}),
    Firing("L4", "error", "NCCL_TOPO_FILE=/missing.xml", {"local": True}, "NCCL_TOPO_FILE=/missing.xml", {}),
    Firing("L4", "error", "NCCL_CONF_FILE=~/nccl.conf", {}, "NCCL_CONF_FILE=/home/me/nccl.conf"),
    Firing("O1", "warning", "TORCH_NCCL_BLOCKING_WAIT=1", {}, "TORCH_NCCL_BLOCKING_WAIT=0"),
    Firing("O1", "error", "TORCH_NCCL_BLOCKING_WAIT=yes TORCH_NCCL_DESYNC_DEBUG=1", {}, "TORCH_NCCL_DESYNC_DEBUG=1"),
    Firing(
        "O1",
        "error",
        "NCCL_BLOCKING_WAIT=1 TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        {},
        "TORCH_NCCL_BLOCKING_WAIT=no TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    ),
    Firing(
        "O2",
        "warning",
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=0",
        {},
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000",
    ),
    Firing(
        "O2",
        "warning",
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_ENABLE_MONITORING=0",
        {},
        "TORCH_NCCL_ENABLE_MONITORING=0",
    ),
    Firing("O3", "warning", "NCCL_ASYNC_ERROR_HANDLING=1", {}, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    Firing(
        "O3",
        "error",
        "NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_ASYNC_ERROR_HANDLING=3",
        {},
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=3",
    ),
    Firing(
        "O3", "warning", "TORCH_NCCL_TRACE_BUFFER_SIZE=20", {}, "TORCH_NCCL_TRACE_BUFFER_SIZE=20", {"torch": (2, 8)}
    ),
    Firing(
        "O4", "warning", "TORCH_NCCL_AVOID_RECORD_STREAMS=1", {}, "TORCH_NCCL_AVOID_RECORD_STREAMS=1", {"torch": (2, 6)}
    ),
    Firing(
        "O5",
        "warning",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=480",
        {"timeout_s": 600.0},
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=601",
    ),
    Firing("O6", "warning", "CUDA_DEVICE_MAX_CONNECTIONS=1", {"sharding": "fsdp"}, "CUDA_DEVICE_MAX_CONNECTIONS=8"),
    Firing("O6", "warning", "CUDA_DEVICE_MAX_CONNECTIONS=8", {"sharding": "tensor"}, "CUDA_DEVICE_MAX_CONNECTIONS=1"),
    Firing("O7", "error", "", _two(IFNAME, {}), "", _two(IFNAME, {"NCCL_SOCKET_IFNAME": "ens3"})),
    Firing("O7", "error", "", _two(IFNAME, {"NCCL_SOCKET_IFNAME": "ens3"}, ("a", "a")), "", _two(IFNAME, IFNAME)),
    Firing("O7", "error", "", _two({"NCCL_ALGO": "ring"}, {}), "", _two({"NCCL_DEBUG_FILE": "a"}, {})),
    Firing(
        "O7", "warning", "", _two({"NCCL_DEBUG": "INFO"}, {}), "", _two({"NCCL_DEBUG": "INFO"}, {"NCCL_DEBUG": "INFO"})
    ),
    Firing("O8", "warning", "NCCL_IB_TC=106", {"late": frozenset({"NCCL_IB_TC"})}, "NCCL_IB_TC=106", {}),
    Firing(
        "O9",
        "warning",
        "",
        {"ranks": (Rank(0, "a", cpu="Intel"), Rank(1, "b", cpu="AMD"))},
        "",
        {"ranks": (Rank(0, "a", cpu="AMD"), Rank(1, "b", cpu="AMD"))},
    ),
    Firing(
        "O9",
        "warning",
        "",
        {"ranks": (Rank(0, "a", nccl=(2, 27, 3)), Rank(1, "b", nccl=(2, 27, 5)))},
        "",
        {"ranks": (Rank(0, "a", nccl=(2, 27, 3)), Rank(1, "b"))},
    ),
)

"""What the checker is told of the run and its machines. Nothing is required: a rule that misses a fact stays silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Interface:
    """A network interface of this machine."""

    name: str
    up: bool = True
    addresses: tuple[str, ...] = ()
    """with the length of the prefix, as 10.0.0.5/20; those of IPv4 first"""
    index: int = 0
    """the kernel's number of it, in whose order NCCL looks"""

    @property
    def usable(self) -> bool:
        return self.up and bool(self.addresses)


@dataclass(frozen=True)
class Gid:
    """One row of an RDMA port's table of addresses, as `show_gids` prints it."""

    index: int
    address: str
    """as an IPv6 address, such as fe80::1 or ::ffff:10.0.0.5"""
    roce: Literal[1, 2] = 2


@dataclass(frozen=True)
class Device:
    """An RDMA device of this machine, as `ibv_devices` names it."""

    name: str
    link: Literal["ib", "ethernet"] = "ib"
    active: bool = True
    """whether one of its ports is up"""
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True)
class Rank:
    """What one rank of the job sees; ranks are compared with each other."""

    rank: int
    node: str
    """the machine, by something that no two machines share"""
    values: Mapping[str, str] = field(default_factory=dict)
    """the variables as they reached the process"""
    identity: str | None = None
    """what NCCL tells hosts apart by: NCCL_HOSTID, or the host's name with its boot id"""
    transport: str | None = None
    """the network that NCCL chose there: IB, Socket or a plugin's name"""
    devices: int | None = None
    """how many network devices NCCL uses there"""
    subnets: tuple[str, ...] | None = None
    """of the interfaces that NCCL uses there, as 10.0.0.0/20"""
    cpu: str | None = None
    """the processor's maker"""
    gpu: str | None = None
    """the GPU's model"""
    nccl: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Context:
    """The run and the machine that values are judged for; None is unknown."""

    nodes: int | None = None
    processes: int | None = None
    """on a node"""
    net: str | None = None
    """between nodes: ib, roce, ethernet or efa"""
    gpu: bool | None = None
    nccl: tuple[int, int, int] | None = None
    """the version; unknown is taken as the newest that the table knows"""
    backend: str | None = None
    """nccl or gloo; under gloo nothing about NCCL is an error"""
    torch: tuple[int, int] | None = None
    local: bool = False
    """whether this machine is the one that is judged, so that paths may be looked at"""
    nvlink: bool | None = None
    """whether its GPUs are joined by NVLink"""
    gpus: int | None = None
    """that this machine has"""
    gpu_paths: frozenset[str] | None = None
    """the words between pairs of GPUs, as `nvidia-smi topo -m` prints them: NV (or NV4), PIX, PXB, PHB, NODE, SYS"""
    peer_access: bool | None = None
    """whether CUDA lets each GPU read the memory of each other; False where it lets none"""
    multicast: bool | None = None
    """whether the NVLink switch's multicast works, which needs its fabric manager; a program that
    asked CUDA may give it"""
    shm_bytes: int | None = None
    """the size of /dev/shm"""
    memory_lockable: bool | None = None
    """whether `ulimit -l` is unlimited"""
    plugin: str | None = None
    """the external network plugin that NCCL would load, by its name or file"""
    interfaces: tuple[Interface, ...] | None = None
    interface: str | None = None
    """the one that NCCL takes when it is told none"""
    host_address: str | None = None
    """what the host's own name resolves to"""
    devices: tuple[Device, ...] | None = None
    """RDMA devices; an empty tuple is none"""
    verbs: bool | None = None
    """whether /dev/infiniband/uverbs* can be seen"""
    traffic_class: int | None = None
    """the one set for the whole machine under /sys/class/infiniband/*/tc"""
    rails_meet: bool | None = None
    """whether every network device reaches every one of other nodes, not only that of its own rail; who runs the
    network knows, and a script of his may give it"""
    ll128: bool | None = None
    """whether NCCL itself chooses LL128 on this hardware; a program that read NCCL's log may give it"""
    deterministic: bool = False
    """whether torch.use_deterministic_algorithms is on, as a program knows that calls the check itself"""
    messages: bool = False
    """whether ranks send to each other or all to all, as stages of a pipeline and experts do"""
    sharding: Literal["fsdp", "tensor"] | None = None
    timeout_s: float | None = None
    """of the process groups"""
    diagnosing: bool = False
    """whether this is a run to find a fault, so that a long log is wanted"""
    late: frozenset[str] = frozenset()
    """the variables that were set after the first communicator was made, as a program knows that calls the
    check itself"""
    ranks: tuple[Rank, ...] = ()
    """what the ranks of a running job see, which a program or script may gather and give"""

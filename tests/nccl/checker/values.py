"""Values of the variables that people set most: a line a variable, those that are right, a bar, those that are wrong.

Words are separated by blanks and quoted as in a shell. Nothing is known of the machine, and NCCL is the newest. Wrong
is what is an error, right is what is not, though there may be a warning.
"""

from __future__ import annotations

TABLE = """
NCCL_DEBUG WARN INFO warn VERSION Trace ABORT | DEBUG 1 TRUE ERROR "'WARN'" ' INFO' WARN,INFO
NCCL_DEBUG_SUBSYS INIT INIT,NET,ENV ^COLL all init,alloc_host | INITS 'INIT, NET' INIT,,NET NETWORK
NCCL_DEBUG_FILE /tmp/nccl.%h.%p.log stdout | "'/tmp/a'"
NCCL_SOCKET_IFNAME eth0 =eth0 eth0,ens3 ^docker0,lo ^=eth3 bond0.2093 | e '=^eth0' 'eth0, eth1' '"eth0"' eth0, =a,=b
NCCL_SOCKET_FAMILY AF_INET AF_INET6 | AF_INET4 af_inet IPv4 4
NCCL_SOCKET_NTHREADS 1 4 16 | 17 0 -1 four 2.5
NCCL_NSOCKS_PERTHREAD 1 4 64 | 65 0 4k
NCCL_IB_DISABLE 0 1 2 0x1 | true yes on '"1"' False
NCCL_IB_HCA mlx5 =mlx5_0,mlx5_1 ^=mlx5_bond_0 mlx5_0:1 ibp | eth0 ib0 '=mlx5_0, mlx5_1' =mlx5_0,=mlx5_1 '=^mlx5' bond0
NCCL_IB_TIMEOUT 14 20 22 31 | 0 32 50 -1 22s
NCCL_IB_RETRY_CNT 0 3 7 | 8 10 13 15 -1 seven
NCCL_IB_GID_INDEX -1 0 3 | -2 3a auto
NCCL_IB_TC 0 96 106 255 0x6a -1 | 256 -2 106, DSCP26
NCCL_IB_SL 0 3 15 -1 | 16 100 a
NCCL_IB_ADDR_FAMILY AF_INET AF_INET6 | inet IPv6
NCCL_IB_ADDR_RANGE 10.0.0.0/8 fd02::/16 | 10.0.0.0 10.0.0.0/99 eth0/8
NCCL_IB_ROCE_VERSION_NUM 1 2 | 3 v2
NCCL_IB_QPS_PER_CONNECTION 1 4 128 | 0 129 four
NCCL_IB_SPLIT_DATA_ON_QPS 0 1 | on
NCCL_IB_ADAPTIVE_ROUTING 0 1 | auto
NCCL_IB_PCI_RELAXED_ORDERING 0 1 2 | 3 -1 auto
NCCL_IB_AR_THRESHOLD 0 8192 | -1 8k
NCCL_IB_MERGE_NICS 0 1 | no
NCCL_IB_PKEY 0 65535 | 65536 -1
NCCL_NET IB Socket socket 'AWS Libfabric' | '"IB"' 'Socket '
NCCL_NET_PLUGIN none ofi aws-ofi,none | 'a, b' a,,b
NCCL_NET_GDR_LEVEL LOC PIX PXB PHB SYS 0 3 5 | phb SYSTEM 2x NODE
NCCL_NET_GDR_READ 0 1 | true
NCCL_NET_SHARED_BUFFERS 0 1 | false
NCCL_CROSS_NIC 0 1 2 | 3 auto
NCCL_P2P_LEVEL LOC NVL PIX PXB PHB SYS 2 | PCI pix NVLINK NET -1
NCCL_P2P_DISABLE 0 1 | 2 true 1s
NCCL_SHM_DISABLE 0 1 | 2 yes
NCCL_P2P_PXN_LEVEL 0 1 2 | 3
NCCL_PXN_DISABLE 0 1 | yes
NCCL_NVLS_ENABLE 0 1 2 | 3 true
NCCL_MNNVL_ENABLE 0 1 2 | 3 auto
NCCL_CUMEM_ENABLE -2 0 1 | 2 off
NCCL_CUMEM_HOST_ENABLE -1 0 1 | 2
NCCL_COLLNET_ENABLE 0 1 | yes
NCCL_ALGO Ring Ring,Tree ^NVLS,NVLSTree allreduce:tree 'ring;allreduce:tree,ring' | Tree 'Ring, Tree' Rings sum:ring
NCCL_PROTO Simple simple,LL ^LL128 allreduce:ll | SIMPLE128 'LL Simple' LL, broadcast;ll
NCCL_BUFFSIZE 1024 4194304 8388608 0x400000 | 4M 8MB 1e6 512 '"4194304"'
NCCL_NTHREADS 64 128 256 512 | 480 1024 100 32
NCCL_MIN_NCHANNELS 0 4 64 | 65 -1 010
NCCL_MAX_NCHANNELS 1 8 64 | 0 65 08
NCCL_MIN_CTAS 1 16 64 | 0 65
NCCL_MAX_CTAS 1 32 64 | 0 128
NCCL_CGA_CLUSTER_SIZE 0 4 8 | 9 -1
NCCL_CTA_POLICY DEFAULT 0 2 efficiency 'DEFAULT|ZERO' | 3 FAST 'ZERO|EFFICIENCY'
NCCL_LAUNCH_MODE PARALLEL parallel GROUP | SERIAL
NCCL_CHECK_MODE DEFAULT debug_local | FULL 1
NCCL_NETDEVS_POLICY AUTO all MAX:4 | MAX MAX:0 4
NCCL_RAS_ADDR localhost:28028 [::1]:28028 | localhost 28028
NCCL_RAS_ENABLE 0 1 | no
NCCL_TUNER_PLUGIN none ofi /opt/a.so | "'none'"
NCCL_GRAPH_REGISTER 0 1 | true
NCCL_IGNORE_CPU_AFFINITY 0 1 | y
NCCL_RUNTIME_CONNECT 0 1 | lazy
GLOO_SOCKET_IFNAME eth0 eth0,ens3 | ^lo =eth0 'eth0, eth1' '"eth0"'
TP_SOCKET_IFNAME eth0 | eth0,eth1 ^lo
TORCH_NCCL_ASYNC_ERROR_HANDLING 0 1 2 3 | 4 true -1
TORCH_NCCL_BLOCKING_WAIT 0 1 yes no True F | 2 on off
TORCH_NCCL_DUMP_ON_TIMEOUT 0 1 y | always
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC 480 7200 | 0 10m ten
TORCH_FR_BUFFER_SIZE 0 2000 | -1 2k
TORCH_DISTRIBUTED_DEBUG OFF INFO DETAIL | detail WARN
MASTER_PORT 29500 1 | 0 65536 http
CUDA_DEVICE_MAX_CONNECTIONS 1 8 32 | 0 64 many
"""

"""A cluster on one machine: network namespaces as hosts, links of a chosen rate. Needs only Python and iproute2."""

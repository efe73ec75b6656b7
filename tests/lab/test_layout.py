"""Names, addresses and subnets of labs."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from trainer.lab.layout import MAX_HOSTS, Lab, LabError, check_name, choose_subnet, lab_of

LAB = Lab("a-1", MAX_HOSTS, 1, "1gbit", IPv4Network("10.77.3.0/24"), 125_000_000)


def test_addresses_sort_as_text_in_the_order_of_hosts_and_fit_the_subnet():
    addresses = [LAB.address(host) for host in range(LAB.hosts)]
    assert addresses[0] == "10.77.3.101"
    assert addresses[-1] == "10.77.3.164"
    assert sorted(addresses) == addresses


def test_hardware_addresses_differ_and_are_local_ones():
    known = {LAB.hardware_address(host) for host in range(LAB.hosts)}
    assert len(known) == LAB.hosts
    assert LAB.hardware_address(0) == "02:00:0a:4d:03:65"


@pytest.mark.parametrize("name", ["lab", "a", "a-1", "a-switch", "0", "x" * 31])
def test_a_namespace_tells_its_lab(name):
    lab = Lab(check_name(name), 12, 1, "none", LAB.subnet)
    assert {lab_of(namespace) for namespace in lab.namespaces} == {name}
    assert len(set(lab.namespaces)) == 13


@pytest.mark.parametrize("namespace", ["other", "netlab-", "netlab-a", "netlab-a-b", "my-netlab-a-0"])
def test_a_foreign_namespace_is_of_no_lab(namespace):
    assert lab_of(namespace) is None


@pytest.mark.parametrize("name", ["", "A", "a_b", "a--b", "-a", "a-", "a b", "a/b", "x" * 32])
def test_bad_names(name):
    with pytest.raises(LabError, match="--name"):
        check_name(name)


def test_the_first_free_subnet_is_taken():
    used = [IPv4Network("10.77.0.0/24"), IPv4Network("10.77.1.128/25"), IPv4Network("192.168.0.0/16")]
    assert choose_subnet(None, used) == IPv4Network("10.77.2.0/24")
    assert choose_subnet(IPv4Network("10.77.9.0/24"), used) == IPv4Network("10.77.9.0/24")


def test_subnets_in_use_are_refused():
    with pytest.raises(LabError, match=r"--subnet: 10.77.0.0/24 is in use \(10.77.0.7/32\)"):
        choose_subnet(IPv4Network("10.77.0.0/24"), [IPv4Network("10.77.0.7/32")])
    with pytest.raises(LabError, match=r"none of 10.77.0.0/16 is free"):
        choose_subnet(None, [IPv4Network("10.0.0.0/8")])

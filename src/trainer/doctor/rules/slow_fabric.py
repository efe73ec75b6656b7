"""The network moves far less than its interface says it could."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.forecast import as_it_is, measured_cost, tail_ms
from trainer.doctor.link import Link
from trainer.doctor.situation import situation
from trainer.doctor.wording import rate, share
from trainer.overlap.evidence import Evidence

# TCP on one stream reaches a half of a fast link on an untuned machine; a third and less means another path or a fault.
FAR_BELOW = 0.3
# What is left of a nominal rate for gradients: headers take the rest.
PAYLOAD = 0.9


def look(evidence: Evidence) -> Finding | None:
    at = situation(evidence)
    nominal = min((link for link in evidence.links_gbit if link), default=None)
    if at is None or at.step is None or at.link is None or not at.exposes or nominal is None:
        return None
    if len(set(at.hosts)) < 2:
        return None  # no gradient passes the interface
    # Ranks of a host may share its interface: then together they use it, as much as that can be.
    together = max(list(evidence.hosts).count(host) for host in evidence.hosts)
    reached = at.link.gbit * together
    if reached >= FAR_BELOW * nominal:
        return None
    faster = Link(at.link.start_ms, 8e-6 / (PAYLOAD * nominal / together), separated=True)
    step, buckets = at.step, as_it_is(at.step)
    now, then = (tail_ms(buckets, measured_cost(step, link), step.backward_end_ms) for link in (at.link, faster))
    cuda = at.device == "cuda"
    advice = "nccl.read_back=true" if cuda else "nccl.env.GLOO_SOCKET_IFNAME=<the fast interface>"
    how = "NCCL then tells which adapter it takes." if cuda else "Gloo takes the one that the host's name resolves to."
    return Finding(
        f"The network moves {rate(at.link.gbit)} a rank over a link of {rate(nominal)}",
        f"That is {share(reached / nominal)} of what the interface says, in large transfers and without the time that"
        f" ranks wait for each other. Another, slower interface may be in use, or the link is shared or limited. {how}",
        advice,
        max(0.0, now - then) or None,
    )

"""Ends of a run that are told in one line."""

from __future__ import annotations


class Diverged(Exception):
    """The loss is no number any more."""


class LostPeer(Exception):
    """Another rank went away, and nobody told this one to stop."""

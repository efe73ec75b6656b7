"""The names of a pipeline's spans, read back."""

from __future__ import annotations

import pytest

from trainer.overlap.stages import Piece, held, message, piece


def test_a_pass_names_its_stage_and_micro_batch():
    assert piece("stage 1, micro-batch 12") == Piece(1, 12)
    assert piece("weights of stage 1, micro-batch 12") == Piece(1, 12, weights=True)


def test_a_message_names_the_stage_that_receives_it():
    assert message("activations of micro-batch 3 to stage 1") == Piece(1, 3)
    assert message("gradients of micro-batch 3 to stage 0") == Piece(0, 3)


@pytest.mark.parametrize("name", ["", "bucket 3", "stage 1 evaluates", "stage 1, micro-batch 3 and more", "<script>"])
def test_other_names_are_about_no_stage(name):
    assert piece(name) is message(name) is None


def test_a_rank_holds_the_stages_that_its_spans_name():
    assert held(["stage 3, micro-batch 0", "", "weights of stage 1, micro-batch 0", "stage 3, micro-batch 1"]) == (1, 3)
    assert held(["bucket 0"]) == ()

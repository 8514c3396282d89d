"""The loss of an SFT step is chunked: a vocabulary eight times as large costs next to nothing."""

from __future__ import annotations

from benchmarks.vocabulary import measure


def test_the_loss_never_holds_all_logits() -> None:
    """Beside the embedding, its gradient and Adam's two moments, less than a fifth of one copy of the logits."""
    found = measure()
    states = 4 * found["embedding_grown"]
    assert found["grown"] - states < 0.2 * found["logits_would_grow"], found

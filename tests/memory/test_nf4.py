"""What bitsandbytes really holds of a packed layer, on the CPU, against the formula."""

from __future__ import annotations

import pytest

from arcslim.memory.formulas import nf4

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("outputs", "inputs"), [(512, 1024), (1024, 1024), (1536, 8960), (256, 3584)])
def test_nf4_is_within_one_percent_of_what_bitsandbytes_holds(outputs: int, inputs: int) -> None:
    import bitsandbytes as bnb

    layer = bnb.nn.Linear4bit(
        inputs, outputs, bias=False, compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4"
    ).to("cpu")
    state = layer.weight.quant_state
    assert layer.weight.dtype == torch.uint8 and state.nested, "it was packed, with double quantisation"
    # Scales, and the scales of scales. The two tables of codes (1 KB) and one offset are the same for every layer.
    held = [layer.weight.data, state.absmax, state.code, state.state2.absmax, state.state2.code, state.offset]
    measured = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert nf4(outputs * inputs) == pytest.approx(measured, rel=0.01)

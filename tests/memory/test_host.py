"""Host RAM: what is advised where a machine has too little of it beside its GPU."""

from __future__ import annotations

from dataclasses import replace

from arcslim.cards import GIB, find_gpu
from arcslim.cli.plan import plan_for
from arcslim.memory.host import host_mend, host_peak
from arcslim.memory.phases import fits
from arcslim.memory.setup import GRPO, Request
from arcslim.presets import load_config


def request(preset: str, gpu: str) -> Request:
    return plan_for(load_config(preset).config, GRPO, find_gpu(gpu)).request


def test_the_largest_smaller_micro_batch_that_is_small_enough() -> None:
    asked = request("4090", "4090")
    assert host_mend(asked, host_peak(asked)) is not None, "smaller fits as well"
    mend = host_mend(asked, 9.5 * GIB)
    assert mend is not None and mend.settings == (
        "--set optim.per_device_train_batch_size=2", "--set grpo.steps_per_generation=64",
        "--set optim.gradient_accumulation_steps=32",
    )  # fmt: skip


def test_checkpoints_of_one_row_stay_on_a_card_that_has_room() -> None:
    asked = request("h100-14b", "h200")
    asked = replace(asked, setup=replace(asked.setup, micro_batch=1, row=32_768, rollout_rows=1, eval_rows=1))
    assert host_peak(asked) == (3.5 + 24) * GIB  # 48 layers, a row of 320 MiB in a block of 512
    mend = host_mend(asked, 12 * GIB)
    assert mend is not None and mend.settings == ("--set model.use_gradient_checkpointing=true",)
    kept = replace(asked, setup=replace(asked.setup, checkpointing="true"))
    assert fits(kept) and host_peak(kept) < 12 * GIB
    small = replace(asked, gpu=replace(asked.gpu, usable_gib=45))
    assert fits(small) and host_mend(small, 12 * GIB) is None, "they would not fit the GPU"


def test_no_knob_makes_libraries_and_a_file_of_weights_smaller() -> None:
    assert host_mend(request("4090", "4090"), 6 * GIB) is None

"""Small SFT runs of the real recipe: the embedded model in 4-bit, honest traces of one generator."""

from __future__ import annotations

from pathlib import Path

from arcslim.config import Config
from arcslim.presets import load_config
from tests.recipes.made import write_preset

PRESET = """\
[model]
name = "tiny"
load_in_4bit = true
max_seq_length = 320
use_gradient_checkpointing = "false"

[data]
sources = ["rearc:d511f180"]  # change 5 to 8, 8 to 5
tasks = 48
pairs = 2
difficulty_min = 0.05
difficulty_max = 0.12
max_side = 4
holdout_select = 12

[prompt]
max_tokens = 224

[sft]
num_train_epochs = 2.0
learning_rate = 2e-3
batch_size = 8
per_device_train_batch_size = 8
lora_r = 16
lora_alpha = 32

[optim]
optim = "adamw_torch"

[generation]
max_completion_length = 88

[run]
save_steps = 4
eval_steps = 4
eval_samples = 2
"""


def write_sft_preset(folder: Path, *sets: str) -> Path:
    """The settings above, changed by ``sets``, as a preset file."""
    return write_preset(folder, *sets, text=PRESET)


def sft_config_of(folder: Path, *sets: str) -> Config:
    return load_config(str(write_sft_preset(folder, *sets)), [], {}).config

"""What Unsloth's loader is given, as pure functions: a contract test holds them against its GPU signatures."""

from __future__ import annotations

from typing import Any

from arcslim.config import LoraSection, ModelSection

_CHECKPOINTING: dict[str, bool | str] = {"unsloth": "unsloth", "true": True, "false": False}


def from_pretrained_arguments(
    model: ModelSection, lora: LoraSection, *, name: str, seed: int, on_gpu: bool
) -> dict[str, Any]:
    """Keyword arguments of ``FastLanguageModel.from_pretrained``; ``name`` is the resolved folder or hub id."""
    arguments: dict[str, Any] = {
        "model_name": name,
        "revision": model.revision,
        "max_seq_length": model.max_seq_length,
        "load_in_4bit": model.load_in_4bit,
        "load_in_16bit": not model.load_in_4bit and not model.full_finetuning,
        "full_finetuning": model.full_finetuning,
        "use_gradient_checkpointing": _CHECKPOINTING[model.use_gradient_checkpointing],
        "trust_remote_code": model.trust_remote_code,
        "random_state": seed,
    }
    if not on_gpu:
        # In fp32, which decodes as fast as bf16 here and rounds nothing. By name: this module stays free of torch.
        arguments["dtype"] = "float32"
    if on_gpu:
        arguments["fast_inference"] = model.fast_inference
        if model.fast_inference:
            arguments["gpu_memory_utilization"] = model.gpu_memory_utilization
            arguments["max_lora_rank"] = lora.r
    return arguments


def peft_arguments(model: ModelSection, lora: LoraSection, *, seed: int, on_gpu: bool) -> dict[str, Any]:
    """Keyword arguments of ``FastLanguageModel.get_peft_model`` besides the model."""
    arguments: dict[str, Any] = {
        "r": lora.r,
        "lora_alpha": lora.lora_alpha,
        "lora_dropout": lora.lora_dropout,
        "target_modules": list(lora.target_modules),
        "use_rslora": lora.use_rslora,
        "use_gradient_checkpointing": _CHECKPOINTING[model.use_gradient_checkpointing],
        "random_state": seed,
        "max_seq_length": model.max_seq_length,
        "bias": "none",
    }
    if lora.use_dora:
        arguments["use_dora"] = True  # no named parameter of Unsloth's: it hands it on to LoraConfig
    return arguments

"""The trained adapter: kept in fp32, copied as the KL reference, saved whole or not at all."""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcslim.errors import ModelError
from arcslim.policy.sources import portable_base

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRAINED, REFERENCE = "default", "ref"


def adapter_to_fp32(model: Any) -> int:
    """Put the adapter's trainable weights back to fp32; returns how many tensors changed.

    TRL's trainers cast them to bf16 when the base is 4-bit. A weight of 0.02 then moves in steps of 1e-4: at a
    learning rate of 1e-6 AdamW's updates are rounded away and the run silently does not learn. Call it after the
    trainer is made and before ``train()``. A model without an adapter is left as it is.
    """
    import torch

    if not hasattr(model, "peft_config"):
        return 0
    changed = 0
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.is_floating_point() and parameter.dtype != torch.float32:
            parameter.data = parameter.data.to(torch.float32)
            changed += 1
    return changed


@contextlib.contextmanager
def adapter_unrounded(model: Any) -> Iterator[None]:
    """Make the trainer inside: trainable weights come out as they went in, in fp32.

    ``adapter_to_fp32`` alone leaves an adapter that was already trained rounded to bf16 once (about 0.2% of each
    weight); a KL to its own start is then not 0 at step 0. Holds a copy of the adapter meanwhile.
    """
    import torch

    is_peft = hasattr(model, "peft_config")
    kept = [(p, p.detach().to(torch.float32, copy=True)) for p in model.parameters() if is_peft and p.requires_grad]
    try:
        yield
    finally:
        for parameter, weights in kept:
            parameter.data = weights.to(parameter.device)


def ensure_reference_adapter(model: Any) -> bool:
    """Add a frozen copy of the adapter named ``ref``, the reference of the KL term; True where one was added.

    Needed with ``beta > 0`` after SFT: TRL makes the copy itself, Unsloth's GPU trainer takes that out but still scores
    with ``ref`` where it exists (else with the bare base model). Call it after the trainer is made: where TRL has made
    the copy, or where the adapter is fresh (its B is 0, so that the base model is the same reference for no memory),
    nothing is added. The active adapter stays as it is. Idempotent. Raises ModelError where the policy shares its
    weights with vLLM [read in Unsloth's load_lora, not tried on a card].
    """
    if not hasattr(model, "peft_config"):
        return False
    if REFERENCE in model.peft_config:
        _freeze(model)
        return False
    if TRAINED not in model.peft_config:
        raise ModelError(f"the model's adapters are {', '.join(model.peft_config)}: none is named {TRAINED!r}")
    if _is_fresh(model):
        return False
    if hasattr(model, "vllm_engine"):
        raise ModelError(
            "grpo.beta over an adapter that was trained before cannot be rolled out with vLLM: Unsloth would hand the "
            "reference's weights to vLLM as well, which does not know them",
            "set grpo.beta=0, or model.fast_inference=false",
        )
    config = copy.deepcopy(model.peft_config[TRAINED])
    config.inference_mode = True
    model.add_adapter(REFERENCE, config)
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if f".{TRAINED}." in name:
            twin = parameters[name.replace(f".{TRAINED}.", f".{REFERENCE}.")]
            twin.data = parameter.detach().clone()
    model.set_adapter(TRAINED)
    _freeze(model)
    return True


def _freeze(model: Any) -> None:
    for name, parameter in model.named_parameters():
        if f".{REFERENCE}." in name:
            parameter.requires_grad_(False)


def _is_fresh(model: Any) -> bool:
    """Whether the adapter changes nothing yet: each B matrix is zero."""
    ups = [p for name, p in model.named_parameters() if f"lora_B.{TRAINED}" in name]
    return bool(ups) and not any(bool(p.detach().any()) for p in ups)


def save_adapter(model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save the trained adapter (fp32 safetensors), the tokenizer and its chat template into ``folder``, atomically.

    Text and safetensors only. A ``ref`` copy is left out. A fully trained model is saved whole. ``folder`` is replaced
    where it exists; a crash on the way leaves the old one. Raises OSError (disk full, no permission).
    """
    from safetensors import SafetensorError

    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        if hasattr(model, "peft_config"):
            _write_adapter(model, partial)
        else:
            model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        _put_in_place(partial, folder)
    except SafetensorError as error:  # what the system said, in words alone
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error), str(folder)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_adapter(model: Any, folder: Path) -> None:
    import torch
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    # Embeddings are saved where modules_to_save names them: PEFT's "auto" would ask the hub for the vocabulary's size.
    state = get_peft_model_state_dict(model, adapter_name=TRAINED, save_embedding_layers=False)
    tensors = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = copy.deepcopy(model.peft_config[TRAINED])
    config.inference_mode = True
    config.base_model_name_or_path = portable_base(str(config.base_model_name_or_path or model.config.name_or_path))
    if isinstance(config.target_modules, set):
        config.target_modules = sorted(config.target_modules)  # the same file each time
    config.save_pretrained(folder)


def _put_in_place(partial: Path, folder: Path) -> None:
    for path in [*partial.rglob("*"), partial]:
        if path.is_file():
            path.chmod(0o644)  # safetensors makes files that only their owner reads
        _sync(path)
    if folder.exists():
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old)
    else:
        partial.rename(folder)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_trained(model: Any, checkpoint: Path) -> None:
    """Put a checkpoint's weights back into the model that wrote it: the trained adapter, or all weights without one.

    Raises:
        ModelError: the checkpoint does not hold what this model trains.
    """
    from safetensors.torch import load_file

    if not hasattr(model, "peft_config"):
        files = sorted(checkpoint.glob("model*.safetensors"))
        state = {name: tensor for file in files for name, tensor in load_file(file).items()}
        missing = set(model.load_state_dict(state, strict=False).missing_keys)
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        if not files or missing - tied:
            raise ModelError(f"{checkpoint} holds no weights of this model", "choose another checkpoint")
        return
    from peft import set_peft_model_state_dict

    file = checkpoint / "adapter_model.safetensors"
    if not file.is_file():
        raise ModelError(f"{checkpoint} holds no adapter", "choose another checkpoint")
    outcome = set_peft_model_state_dict(model, load_file(file), adapter_name=TRAINED)
    if outcome.unexpected_keys:
        raise ModelError(f"the adapter in {checkpoint} belongs to another model: {outcome.unexpected_keys[0]}")

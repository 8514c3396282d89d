"""Loading the policy: the one place that imports Unsloth, and that does it before TRL, transformers and PEFT.

``start_unsloth`` sets what must be set before that import and does the import; call it first in a process that will
train. ``load_policy`` calls it too. Unsloth prints to standard output; here that goes to the log (level DEBUG).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from arcslim.cards import RANDOM
from arcslim.config import LoraSection, ModelSection
from arcslim.errors import InputError, ModelError
from arcslim.policy.adapters import (
    adapter_to_fp32,
    adapter_unrounded,
    ensure_reference_adapter,
    load_trained,
    save_adapter,
)
from arcslim.policy.arguments import from_pretrained_arguments, peft_arguments
from arcslim.policy.random_weights import made
from arcslim.policy.sources import (
    Source,
    adapter_differences,
    hub_state,
    loadable_adapter,
    read_adapter_config,
    refuse_untrainable,
)
from arcslim.policy.tokenizers import LoadedTokenizer, as_ids, load_tokenizer, mend

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "LoadedTokenizer",
    "Policy",
    "adapter_to_fp32",
    "adapter_unrounded",
    "ensure_reference_adapter",
    "load_policy",
    "load_tokenizer",
    "load_trained",
    "print_to_log",
    "save_adapter",
    "start_unsloth",
]

log = logging.getLogger(__name__)
_CPU_NOTE = (
    "CPU: Unsloth trains with stock transformers and PEFT; 8-bit and paged optimizers become fused AdamW, "
    "packing and padding-free batches are off"
)


@dataclass(frozen=True)
class Policy:
    """A model ready to roll out and train.

    ``end_token_ids``: every token that ends a completion, the tokenizer's eos first. ``notes``: what differs from what
    was asked, one sentence each. ``device``: ``cpu``, ``cuda``, …. ``fast_inference``: rolls out with vLLM.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    end_token_ids: tuple[int, ...]
    notes: tuple[str, ...]
    device: str
    fast_inference: bool = False


def start_unsloth(cache_dir: Path, *, standby: bool = False) -> ModuleType:
    """Import Unsloth with its settings in place: no usage statistics, no padding-free by itself, its generated code in
    ``cache_dir`` instead of the working directory, and vLLM's standby when asked. Once imported, it stays.

    Raises InputError where ``cache_dir`` cannot be written.
    """
    already = sys.modules.get("unsloth")
    if already is not None:
        return already
    compiled = cache_dir.expanduser().resolve() / "unsloth"
    try:
        compiled.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the cache folder {compiled} cannot be made: {error.strerror}", "choose another one"
        ) from error
    if not os.access(compiled, os.W_OK):
        raise InputError(f"the cache folder {compiled} is not writable", "choose another one, or mend its owner")
    os.environ["UNSLOTH_DISABLE_STATISTICS"] = "1"
    os.environ["UNSLOTH_DISABLE_AUTO_PADDING_FREE"] = "1"
    os.environ["UNSLOTH_COMPILE_LOCATION"] = str(compiled)
    if standby:
        os.environ["UNSLOTH_VLLM_STANDBY"] = "1"
    late = [name for name in ("trl", "transformers", "peft") if name in sys.modules]
    if late:
        log.debug("imported before Unsloth: %s", ", ".join(late))
    for noisy in ("bitsandbytes.backends.cpu.ops", "torch.utils._pytree"):  # an optional kernel, torchao's old calls
        logging.getLogger(noisy).setLevel(logging.ERROR)
    with print_to_log():
        import unsloth
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # of reading weights, which takes seconds; the hub's own bars of downloading stay
    return unsloth


def load_policy(
    model: ModelSection,
    lora: LoraSection,
    *,
    seed: int,
    cache_dir: Path,
    trainable: bool = True,
    knobs: Mapping[str, str] | None = None,
) -> Policy:
    """Load ``model.name`` and give it an adapter to train (unless ``full_finetuning``, or it comes with one).

    An adapter that comes with the name goes on being trained; where it differs from ``lora``, ``notes`` say so. With
    ``trainable`` False nothing is added and nothing requires a gradient. ``knobs``: dotted names of what in ``lora``
    another section set.

    Raises ModelError where the model cannot be found or used, InputError for what this machine cannot do.
    """
    source = refuse_untrainable(model)
    if source.kind == "hub" and hub_state(source.name, model.revision) == "absent":
        raise ModelError(
            f"{source.name} is not in the local cache and the hub cannot be reached",
            "load it once with a network, or give a local folder",
        )
    unsloth = start_unsloth(cache_dir, standby=model.standby and model.fast_inference)
    device = str(unsloth.DEVICE_TYPE)
    if device == "cpu" and model.fast_inference:
        raise InputError("model.fast_inference (vLLM) needs a GPU, and there is none", "set it to false")
    if model.fast_inference and importlib.util.find_spec("vllm") is None:
        raise InputError(
            "model.fast_inference asks for vLLM, which is not installed",
            'pip install -c constraints-vllm.txt "arcslim[vllm]", or set it to false',
        )
    notes = [_CPU_NOTE] if device == "cpu" else []
    source, words = _with_weights(source, model, on_gpu=device != "cpu")
    notes += words
    loaded, tokenizer = _from_pretrained(unsloth, source, model, lora, seed, on_gpu=device != "cpu")
    if model.load_in_4bit and not getattr(loaded, "is_loaded_in_4bit", False):
        notes.append("model.load_in_4bit: these weights could not be packed to 4 bits; they are held in 16 bits")
    if hasattr(loaded, "peft_config"):
        if source.kind == "adapter":
            notes += adapter_differences(source.name, lora, knobs)
    elif trainable and not model.full_finetuning:
        _refuse_missing_modules(loaded, lora, (knobs or {}).get("target_modules", "lora.target_modules"))
        with print_to_log():
            loaded = unsloth.FastLanguageModel.get_peft_model(
                loaded, **peft_arguments(model, lora, seed=seed, on_gpu=device != "cpu")
            )
    if not trainable:
        loaded.requires_grad_(False)
    mended = _mend_model(loaded, tokenizer)
    return Policy(loaded, mended.tokenizer, mended.end_token_ids, (*notes, *mended.notes), device, model.fast_inference)


def _refuse_missing_modules(model: Any, lora: LoraSection, knob: str) -> None:
    """PEFT raises only where none of the names is found: a slip in one would be an adapter that lacks it, unsaid."""
    there = {name.rpartition(".")[2] for name, module in model.named_modules() if hasattr(module, "in_features")}
    missing = [name for name in lora.target_modules if name.rpartition(".")[2] not in there]
    if missing:
        raise InputError(
            f"{knob} names {', '.join(missing)}, which this model has not",
            f"its linear layers are {', '.join(sorted(there))}",
        )


def _with_weights(source: Source, model: ModelSection, *, on_gpu: bool) -> tuple[Source, list[str]]:
    """The source with a folder in the place of ``random:CARD``; what was made for it, in words."""
    name = source.name if source.kind == "random" else source.base or ""
    if not name.startswith(RANDOM):
        return source, []
    random = made(name, four_bit=model.load_in_4bit and not model.full_finetuning, on_gpu=on_gpu)
    if source.kind == "random":
        return random.source, [random.note]
    return dataclasses.replace(source, base=random.source.name), [random.note]


def _from_pretrained(
    unsloth: ModuleType, source: Source, model: ModelSection, lora: LoraSection, seed: int, *, on_gpu: bool
) -> tuple[Any, Any]:
    if source.kind == "adapter":
        # vLLM is told the largest rank that it will meet: the adapter's own, which stays in force.
        rank = read_adapter_config(Path(source.name)).get("r")
        if isinstance(rank, int):
            lora = lora.model_copy(update={"r": rank})
    place = contextlib.nullcontext(source.name)
    if source.kind == "adapter" and source.base is not None:
        place = loadable_adapter(source.name, source.base)  # type: ignore[assignment]
    try:
        with place as name, print_to_log():
            arguments = from_pretrained_arguments(model, lora, name=name, seed=seed, on_gpu=on_gpu)
            loaded, tokenizer = unsloth.FastLanguageModel.from_pretrained(**arguments)
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{model.name} could not be loaded: {first}", "see the whole message with --debug") from error
    return loaded, tokenizer


def _mend_model(model: Any, tokenizer: Any) -> LoadedTokenizer:
    """Mend the tokenizer and let the model agree: all ends stop generation, the pad is known, sampling is ours."""
    from transformers import GenerationConfig

    own = model.generation_config
    rows = model.get_input_embeddings().weight.shape[0]
    mended = mend(tokenizer, as_ids(own.eos_token_id), rows=rows)
    # transformers fills fields that a caller left unset from the model's own generation config (Qwen: top_k 20,
    # repetition_penalty 1.05), which would bias the log-probabilities: a fresh one holds token ids and nothing else.
    model.generation_config = GenerationConfig(
        bos_token_id=own.bos_token_id,
        eos_token_id=list(mended.end_token_ids),
        pad_token_id=int(mended.tokenizer.pad_token_id),
    )
    model.config.get_text_config().pad_token_id = int(mended.tokenizer.pad_token_id)
    sampling = {
        key: getattr(own, key, None) for key in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    }
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    odd = {key: value for key, value in sampling.items() if value is not None and value != neutral[key]}
    if odd:
        listed = ", ".join(f"{key} {value}" for key, value in odd.items())
        note = f"the model's own sampling defaults ({listed}) are not used: the generation section's are"
        return LoadedTokenizer(mended.tokenizer, mended.end_token_ids, (*mended.notes, note))
    return mended


@contextlib.contextmanager
def print_to_log() -> Iterator[None]:
    """Send what a library prints to the log. Standard error, with its progress bars and warnings, is left alone."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            if line.strip():
                log.debug("unsloth: %s", line.rstrip())

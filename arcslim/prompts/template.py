"""The ``<think>`` prefill as part of a chat template, so that every server gives the model the prompt of its training.

A template that is saved with an adapter is all that vLLM, transformers or a chat window know. Where it does not open
the thinking, the model meets a prompt that it was never trained on, and falls back to its old habits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from arcslim.errors import ModelError
from arcslim.prompts.render import ASK_TO_THINK, PREFILL, closes_thinking, generation_prompt, rendered

_PROBE = ({"role": "user", "content": "zqx"},)
_PROBES: tuple[tuple[dict[str, str], ...], ...] = (
    _PROBE,
    ({"role": "system", "content": "zqs"}, *_PROBE),
    (*_PROBE, {"role": "assistant", "content": "zqy"}, *_PROBE),
)
# Taken down before anything else: some templates set their own default, and a caller may forbid the thinking. The `+`
# keeps trim_blocks and lstrip_blocks, which transformers sets, from eating what the template itself writes there.
_WISHES = " and ".join(f"({name} is not defined or {name})" for name in ASK_TO_THINK)
_BEFORE = f"{{% set open_thinking = {_WISHES} +%}}"
_ASKED = "".join(f"{{% set {name} = open_thinking +%}}" for name in ASK_TO_THINK)
_LAST_NEWLINE = re.compile(r"(\r\n|\r|\n)\Z")
_WAY_OUT = "set sft.prefill_template=false, and open <think> in the prompt wherever the model is served"


def prefilled(template: str, missing: str = PREFILL, *, closes: bool = False) -> str:
    """The template with ``<think>`` at the end of its generation prompt, where a caller does not forbid thinking.

    ``missing`` is what the template leaves out of the prefill: all of it, its newline alone, or nothing. ``closes``:
    it closes an empty block unless a caller asks it to think; then it is asked by default. A template that wants
    nothing, or to which this was done before, comes back as it is.

    What is added stands at the very end, after whatever the template writes: a template's generation prompt is the
    last thing that it writes. Jinja drops one newline at the end of a template, so that one is dropped here too.
    """
    if not (missing or closes) or template.startswith(_BEFORE):
        return template
    opened = f"{{%+ if add_generation_prompt and open_thinking %}}{{{{ {missing!r} }}}}{{% endif %}}" if missing else ""
    return _BEFORE + (_ASKED if closes else "") + _LAST_NEWLINE.sub("", template) + opened


def prefill_template(tokenizer: Any) -> str | None:
    """Let the tokenizer's own chat template open the thinking; in place. What was done, or None where it did so before.

    Raises:
        ModelError: the template cannot be brought to it: what it renders is not what training renders. The tokenizer
            is then as it was.
    """
    template = tokenizer.chat_template
    if not isinstance(template, str):
        raise ModelError(
            "the tokenizer has several chat templates" if template else "the tokenizer has no chat template",
            "set sft.prefill_template=false, or prompt.style=base for a model that knows no template",
        )
    wanted = {probe: text for probe in range(len(_PROBES)) if (text := _trained(tokenizer, _PROBES[probe])) is not None}
    before = rendered(tokenizer, _PROBE)
    closes = closes_thinking(before)
    asked = rendered(tokenizer, _PROBE, **ASK_TO_THINK) if closes else before
    tokenizer.chat_template = prefilled(template, wanted[0][len(asked) :], closes=closes)
    for probe, text in wanted.items():
        got = _served(tokenizer, _PROBES[probe], text)
        if got != text:
            tokenizer.chat_template = template
            raise ModelError(
                f"this chat template cannot be made to open the thinking: it gives {got[-60:]!r}, and training would "
                f"give {text[-60:]!r}",
                _WAY_OUT,
            )
    if tokenizer.chat_template == template:
        return None
    return "the chat template now ends its generation prompt with <think>; it is saved with the weights"


def _trained(tokenizer: Any, messages: Sequence[dict[str, str]]) -> str | None:
    """The prompt as training renders it; None where the template refuses such a conversation (some have no system)."""
    from jinja2 import TemplateError

    try:
        return generation_prompt(tokenizer, messages)
    except TemplateError as error:
        if messages == _PROBE:
            raise ModelError(f"the chat template cannot render a question: {error}", _WAY_OUT) from error
        return None


def _served(tokenizer: Any, messages: Sequence[dict[str, str]], wanted: str) -> str:
    """The prompt as a server renders it, or why it is not the ``wanted`` one in text and token ids."""
    from jinja2 import TemplateError

    try:
        text = rendered(tokenizer, messages)
        encoded = tokenizer.apply_chat_template(
            list(messages), tokenize=True, add_generation_prompt=True, return_dict=True
        )
    except TemplateError as error:
        return f"the error {error}"
    if list(encoded["input_ids"]) != list(tokenizer(wanted, add_special_tokens=False)["input_ids"]):
        return f"other token ids for {text}" if text == wanted else text
    return text

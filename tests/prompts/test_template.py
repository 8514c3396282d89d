"""The prefill in the saved chat template: training, transformers and a server give the model the same prompt."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import PromptSection
from arcslim.errors import ModelError
from arcslim.prompts.render import PREFILL, Renderer
from arcslim.prompts.template import prefill_template, prefilled
from tests.policy.made import byte_tokenizer
from tests.real_tokenizers import NAMES, real_tokenizer

QUESTION = [{"role": "user", "content": "Which colour?"}]
TWO_TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "And 2 + 2?"},
]

# How the generation prompts of well-known templates are built, in our own words.
TEMPLATES = {
    # a default system turn, tags that eat the space around them
    "qwen2.5": """\
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' -}}
{%- endif -%}
{%- for m in messages -%}
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
""",
    # a caller may forbid the thinking: an empty block is closed
    "qwen3": """\
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    # opens the thinking itself, and ends there
    "r1": """\
{%- for m in messages -%}
<|{{ m.role }}|>{{ m.content }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<|assistant|><think>\\n' }}{% endif %}""",
    # a blank line after the header, a begin token of its own
    "llama3.1": """\
{{- bos_token }}
{%- for m in messages %}
    {{- '<|start|>' + m['role'] + '<|end|>\\n\\n' + m['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
""",
    # plain text between the tags, its newlines inside the strings
    "smollm2": "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # opens the thinking without the newline after it
    "bare opener": "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}",
    # thinks only when asked to
    "closed by default": """\
{% for m in messages %}[{{ m.role }}]{{ m.content }}
{% endfor %}
{% if add_generation_prompt %}
[assistant]{{ '<think>\\n' if enable_thinking is defined and enable_thinking else '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}""",
    # the other name of the switch, set to false by the template itself; the closer alone
    "closed, by its own default": """\
{% if not thinking is defined %}{% set thinking = false %}{% endif %}
{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}
{% if add_generation_prompt %}{{ '[assistant]' }}{{ '<think>' if thinking else '</think>' }}{% endif %}""",
    # a switch that the template turns off for itself, and that decides nothing about the prompt's end
    "own default": """\
{%- set enable_thinking = enable_thinking | default(false) -%}
{%- for m in messages %}{{ m.content }};{% endfor %}
{%- if add_generation_prompt %}{{ 'model:' }}{% endif %}""",
    # a prompt that ends in text, and newlines after the last tag, of which Jinja drops one and trim_blocks another
    "text": "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}A:\n{% endif %}\n\n",
    "spaces": "{% for m in messages %}{{ m.content }}{% endfor %}\n{% if add_generation_prompt %}\n{% endif %}\n\n  \n",
    "carriage return": "{% for m in messages %}{{ m.content }}{% endfor %}A:\r\n",
}  # fmt: skip


def with_template(template: str) -> Any:
    tokenizer = byte_tokenizer(eos_token="<|im_end|>", pad_token="<|fim_pad|>", bos_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


def rendered(tokenizer: Any, messages: list[dict[str, str]], *, generation: bool = True, **options: Any) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation, **options))


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("messages", [QUESTION, TWO_TURNS], ids=["one turn", "two turns"])
class TestKinds:
    def test_the_template_renders_what_training_renders(self, name: str, messages: list[dict[str, str]]) -> None:
        """Case 4: the same text, and the same token ids, from the bare template as from the Renderer before it."""
        tokenizer = with_template(TEMPLATES[name])
        before = Renderer(tokenizer, PromptSection()).render_messages(messages, "p")
        prefill_template(tokenizer)
        assert rendered(tokenizer, messages) == before.text
        ids = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
        assert tuple(ids) == before.token_ids
        assert before.text.endswith(PREFILL)
        assert before.text.count("<think>") == 1 + before.text.count("</think>")
        assert not before.text.removesuffix(PREFILL).endswith("<think>")

    def test_the_renderer_goes_on_as_before(self, name: str, messages: list[dict[str, str]]) -> None:
        """GRPO from the saved tokenizer: not a second opener."""
        tokenizer = with_template(TEMPLATES[name])
        before = Renderer(tokenizer, PromptSection()).render_messages(messages, "p")
        prefill_template(tokenizer)
        assert Renderer(tokenizer, PromptSection()).render_messages(messages, "p") == before

    def test_a_conversation_without_a_generation_prompt_stays(self, name: str, messages: list[dict[str, str]]) -> None:
        tokenizer = with_template(TEMPLATES[name])
        before = rendered(tokenizer, messages, generation=False)
        prefill_template(tokenizer)
        assert rendered(tokenizer, messages, generation=False) == before

    def test_a_second_time_changes_nothing(self, name: str, messages: list[dict[str, str]]) -> None:
        tokenizer = with_template(TEMPLATES[name])
        note, template = prefill_template(tokenizer), tokenizer.chat_template
        assert (note is None) == (name == "r1")
        assert prefill_template(tokenizer) is None
        assert tokenizer.chat_template == template
        assert prefilled(template) == template or note is None
        assert rendered(tokenizer, messages).endswith(PREFILL)


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3", "closed by default", "own default"])
def test_a_caller_may_still_forbid_the_thinking(name: str) -> None:
    tokenizer = with_template(TEMPLATES[name])
    before = rendered(tokenizer, QUESTION, enable_thinking=False)
    prefill_template(tokenizer)
    assert rendered(tokenizer, QUESTION, enable_thinking=False) == before
    assert rendered(tokenizer, QUESTION, enable_thinking=True).endswith(PREFILL)


def test_the_other_switch_is_heeded_too() -> None:
    tokenizer = with_template(TEMPLATES["closed, by its own default"])
    prefill_template(tokenizer)
    assert rendered(tokenizer, QUESTION, thinking=False).endswith("[assistant]</think>")


def test_a_template_that_opens_the_thinking_is_left_as_it_is() -> None:
    tokenizer = with_template(TEMPLATES["r1"])
    assert prefill_template(tokenizer) is None
    assert tokenizer.chat_template == TEMPLATES["r1"]


def test_a_template_without_a_system_role_is_taken() -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    tokenizer = with_template(refusing + TEMPLATES["smollm2"])
    assert prefill_template(tokenizer) is not None
    assert rendered(tokenizer, QUESTION).endswith(f"assistant\n{PREFILL}")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        # the generation prompt is not the last thing: what is put at the end would stand behind the answer's turn
        (
            "{% if add_generation_prompt %}A:{% set add_generation_prompt = false %}{% endif %}",
            "cannot be made to open",
        ),
        ("{% for m in messages %}{{ m.content }}{% endfor %}{% raw %}", "the error Missing end of raw"),
        ("{{ messages[0].text.upper() }}", "cannot render a question"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n</think>\n", "answer without thinking"),
        (None, "no chat template"),
        ({"default": TEMPLATES["qwen2.5"], "tools": TEMPLATES["qwen2.5"]}, "several chat templates"),
    ],
)
def test_what_cannot_be_brought_to_it_is_refused_and_left_as_it_was(template: Any, said: str) -> None:
    tokenizer = with_template("")
    tokenizer.chat_template = template
    with pytest.raises(ModelError, match=said) as caught:
        prefill_template(tokenizer)
    assert caught.value.hint
    assert tokenizer.chat_template == template


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("messages", [QUESTION, TWO_TURNS], ids=["one turn", "two turns"])
def test_case_4_a_saved_tokenizer_gives_the_prompt_of_the_training(
    name: str, messages: list[dict[str, str]], tmp_path: Path
) -> None:
    """Case 4: saved and read again, on three real tokenizers: the ids by `apply_chat_template`, and the ids of its
    text as a server tokenises it, are those that were trained on."""
    from transformers import AutoTokenizer

    tokenizer = real_tokenizer(name)
    prefill_template(tokenizer)
    trained = Renderer(tokenizer, PromptSection()).render_messages(messages, "p").token_ids
    tokenizer.save_pretrained(tmp_path)
    served = AutoTokenizer.from_pretrained(str(tmp_path))
    ids = served.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
    assert tuple(ids) == trained
    assert tuple(served(rendered(served, messages), add_special_tokens=False)["input_ids"]) == trained
    assert served.decode(ids).endswith(PREFILL)


@pytest.mark.parametrize("name", NAMES)
def test_case_4_without_the_prefill_the_prompts_differ(name: str, tmp_path: Path) -> None:
    """Case 4: the fault is real, and the test above can fail."""
    from transformers import AutoTokenizer

    tokenizer = real_tokenizer(name)
    trained = Renderer(tokenizer, PromptSection()).render_messages(QUESTION, "p").token_ids
    tokenizer.save_pretrained(tmp_path)
    served = AutoTokenizer.from_pretrained(str(tmp_path))
    ids = served.apply_chat_template(QUESTION, tokenize=True, add_generation_prompt=True, return_dict=False)
    assert tuple(ids) != trained


def shipped_with_trl() -> list[Path]:
    found = importlib.util.find_spec("trl")  # not imported: Unsloth would have to come first
    assert found is not None and found.origin is not None
    return sorted(Path(found.origin).parent.glob("chat_templates/*.jinja"))


@pytest.mark.parametrize("path", shipped_with_trl(), ids=lambda path: path.stem)
def test_the_real_templates_that_trl_brings_can_all_be_prefilled(path: Path) -> None:
    tokenizer = with_template(path.read_text(encoding="utf-8"))
    before = Renderer(tokenizer, PromptSection()).render_messages(QUESTION, "p")
    prefill_template(tokenizer)
    assert rendered(tokenizer, QUESTION) == before.text
    assert before.text.endswith(PREFILL)
    assert before.text.count("<think>") - before.text.count("</think>") == 1


def test_real_templates_are_there() -> None:
    """The test above is not empty: the families of the presets are among them."""
    names = {path.stem for path in shipped_with_trl()}
    assert names >= {"qwen2_5", "qwen3", "llama3_1", "deepseek_r1_distill"}

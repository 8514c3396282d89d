"""A task becomes a prompt: the words, the template, and the ``<think>`` that the prompt ends with.

Both styles end in an opened thinking block, so that the model's first token is already a thought.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from arcslim.config import PromptSection
from arcslim.errors import ModelError
from arcslim.prompts.drawing import compact_text, drawing_messages
from arcslim.prompts.nouns import Prompt
from arcslim.prompts.text import GridFormat, grid_to_text
from arcslim.tasks.grid import Grid
from arcslim.tasks.spec import DRAW
from arcslim.tasks.task import Task

PREFILL = "<think>\n"
ASK_TO_THINK = {"enable_thinking": True, "thinking": True}  # the two names that templates have for it

_FORMAT = {
    "compact": "one line for each row, its cells as digits without spaces",
    "spaced": "one line for each row, its cells as digits with a space between",
}
_EXAMPLE_GRID = Grid([[7, 0, 7], [0, 7, 0]])


class ChatTokenizer(Protocol):
    """What is used of a transformers tokenizer."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any: ...

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> Any: ...


class Renderer:
    """Renders prompts for one tokenizer and one ``PromptSection``."""

    def __init__(self, tokenizer: ChatTokenizer, section: PromptSection) -> None:
        self._tokenizer = tokenizer
        self._section = section

    def render(self, task: Task, prompt_id: str) -> Prompt:
        """The prompt that asks for the output of the task's first test pair.

        ``token_ids`` are those of ``text`` as it stands: templates write their own special tokens.
        """
        if task.source == DRAW:
            return self._drawing(task, prompt_id)
        if self._section.style == "base":
            message = {"role": "user", "content": base_text(task, self._section.grid)}
            return self._prompt([message], message["content"], prompt_id, task.task_id)
        return self.render_messages(
            [{"role": "user", "content": chat_text(task, self._section.grid)}], prompt_id, task.task_id
        )

    def render_messages(self, messages: Sequence[dict[str, str]], prompt_id: str, task_id: str = "") -> Prompt:
        """The prompt that a conversation up to a user's turn makes; its end opens the thinking.

        Style ``base``: the turns as they are written in ``base_text``, for models that know no template.
        """
        if self._section.style == "base":
            text = base_conversation(messages)
        else:
            text = generation_prompt(self._tokenizer, messages)
        return self._prompt(messages, text, prompt_id, task_id)

    def _drawing(self, task: Task, prompt_id: str) -> Prompt:
        """The question for a program that draws the task's image, as HER asks it: no thinking is opened."""
        pair = task.test[0]
        wanted = pair.input.cells if pair.output is None else pair.output.cells
        messages = drawing_messages(pair.input.cells, wanted)
        if self._section.style == "base":
            text = compact_text(pair.input.cells, wanted)
        else:
            text = rendered(self._tokenizer, messages)
        return self._prompt(messages, text, prompt_id, task.task_id, prefill="")

    def _prompt(
        self, messages: Sequence[dict[str, str]], text: str, prompt_id: str, task_id: str, prefill: str = PREFILL
    ) -> Prompt:
        # verbose: else transformers warns of prompts over the model's length, which are dealt with where they are used
        token_ids = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return Prompt(prompt_id, task_id, tuple(messages), text, prefill, tuple(token_ids))


def generation_prompt(tokenizer: ChatTokenizer, messages: Sequence[dict[str, str]]) -> str:
    """What the chat template makes of a conversation, up to the thinking that the model is to go on with.

    Some templates (Qwen3.5's small models, DeepSeek-V3.1) close an empty block unless they are asked to think: then
    they are asked.

    Raises:
        ModelError: the template closes the thinking all the same.
    """
    text = rendered(tokenizer, messages)
    if closes_thinking(text):
        text = rendered(tokenizer, messages, **ASK_TO_THINK)
    if closes_thinking(text):
        raise ModelError(
            f"the chat template lets the model answer without thinking: its prompt ends in {text[-40:]!r}",
            "train a model whose template leaves the thinking open, or use prompt.style=base",
        )
    return with_prefill(text)


def rendered(tokenizer: ChatTokenizer, messages: Sequence[dict[str, str]], **options: bool) -> str:
    """The chat template's own generation prompt, as it stands."""
    return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, **options))


def closes_thinking(text: str) -> bool:
    """Whether a rendered prompt leaves the model no room to think."""
    return text.rstrip().endswith("</think>")


def with_prefill(text: str) -> str:
    """A rendered prompt that opens the thinking exactly once: R1's template does so itself, Qwen's does not."""
    opened = text.rstrip()
    return opened + "\n" if opened.endswith(PREFILL.rstrip()) else text + PREFILL


def base_conversation(messages: Sequence[dict[str, str]]) -> str:
    """A conversation in plain words, up to the Assistant's opened thinking."""
    turns = [
        message["content"] if message["role"] == "system" else f"{message['role'].capitalize()}: {message['content']}"
        for message in messages
    ]
    return "\n\n".join([*turns, f"Assistant: {PREFILL}"])


def chat_text(task: Task, style: GridFormat) -> str:
    """The user's message of the style ``chat``."""
    return (
        "Find the rule that turns each input into its output. Think inside <think> </think>. "
        "Then give the test output inside <answer> </answer>, "
        f"{_FORMAT[style]}.\n\n{_examples(task, style)}"
        f"Test input:\n{grid_to_text(task.test[0].input, style)}\n"
    )


def base_text(task: Task, style: GridFormat) -> str:
    """The whole prompt of the style ``base``, for models that know no chat template."""
    return (
        "This is a conversation of a User and an Assistant. The User poses a puzzle. The Assistant reasons about it "
        "at length before it commits to anything: the reasoning stands inside <think> </think>, and the final answer "
        "follows inside <answer> </answer>.\n\n"
        "User: Each pair of grids below shows the same hidden pattern, which turns the input into the output. Work "
        "out the pattern from the pairs, and show your work in <think> </think> tags. Then write the final answer in "
        f"<answer> </answer> tags, {_FORMAT[style]}, like this:\n"
        f"<answer>\n{grid_to_text(_EXAMPLE_GRID, style)}\n</answer>\n\n"
        f"Training Examples\n\n{_examples(task, style, 'Example {}: Input', 'Example {}: Output')}"
        f"Test Input:\n{grid_to_text(task.test[0].input, style)}\n\n"
        f"What is Output for the Test Input?\n\nAssistant: Let me solve this step by step.\n{PREFILL}"
    )


def _examples(task: Task, style: GridFormat, before: str = "Example {} input", after: str = "Example {} output") -> str:
    parts: Sequence[str] = [
        f"{before.format(number)}:\n{grid_to_text(pair.input, style)}\n"
        f"{after.format(number)}:\n{_known(pair.output, style)}\n\n"
        for number, pair in enumerate(task.train, 1)
    ]
    return "".join(parts)


def _known(grid: Grid | None, style: GridFormat) -> str:
    if grid is None:
        raise ValueError("an example pair without an output")  # the parsers of tasks/ let none through
    return grid_to_text(grid, style)


def answer_text(thinking: str, answer: Grid, style: GridFormat) -> str:
    """The completion that a prompt asks for: what honest thinking and a right answer look like after the prefill."""
    return completion_text(thinking, f"<answer>\n{grid_to_text(answer, style)}\n</answer>")


def completion_text(thinking: str, answer: str) -> str:
    """Thinking and answer as they follow the prefill: the block that it opened is closed once."""
    return f"{thinking}\n</think>\n\n{answer}"

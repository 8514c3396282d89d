"""A byte-level tokenizer and a small random Qwen3, made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arcslim.policy.qwen_tokenizer import _byte_letters

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_pad|>", "<think>", "</think>", "<answer>", "</answer>")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(special: tuple[str, ...] = SPECIAL, **names: Any) -> Any:
    """One token a byte, then the special tokens: ids 256, 257, …"""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = _byte_letters()
    tokenizer = Tokenizer(models.BPE(vocab={letters[byte]: byte for byte in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **names)
    fast.chat_template = CHATML
    return fast


def make_model_folder(folder: Path, *, hidden: int = 64, layers: int = 2, eos: int | list[int] = 258) -> Path:
    """Random weights, bf16, seeded; the tokenizer's pad is its second end token, as in Qwen2.5-Instruct."""
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    tokenizer = byte_tokenizer(eos_token="<|im_end|>", pad_token="<|endoftext|>")
    config = Qwen3Config(
        vocab_size=264, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, max_position_embeddings=512,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(eos_token_id=eos, pad_token_id=256, top_p=0.8, top_k=20, do_sample=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

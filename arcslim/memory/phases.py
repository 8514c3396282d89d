"""What each phase of a step holds, item by item, on the GPU and in host RAM.

Phases do not overlap, so the card needs the largest of them, not their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from arcslim.memory import formulas as f
from arcslim.memory.setup import Request


@dataclass(frozen=True)
class Item:
    """One thing that takes memory. ``counts``: False where a larger item of the same phase takes its turn."""

    name: str
    bytes: float
    note: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Phase:
    """A part of a step; ``name`` is load, rollout, update or evaluation."""

    name: str
    gpu: tuple[Item, ...]
    host: tuple[Item, ...] = ()

    @property
    def gpu_peak(self) -> float:
        return sum(item.bytes for item in self.gpu if item.counts)

    @property
    def host_peak(self) -> float:
        return sum(item.bytes for item in self.host if item.counts)


def phases_of(request: Request) -> tuple[Phase, ...]:
    """The phases of a recipe's step; without a GPU all of it lies in RAM.

    An evaluation is one of its own where it draws more rows at once than a rollout, where its prompts are padded and a
    rollout's are not, or where there is no rollout.
    """
    setup = request.setup
    phases = [_load(request)]
    if setup.learns_from_rollouts:
        phases.append(_drawing(request, "rollout"))
    phases.append(_update(request))
    if setup.rolls_out and not (setup.learns_from_rollouts and _rollout_is_larger(request)):
        phases.append(_drawing(request, "evaluation"))
    return tuple(_on_host(phase) for phase in phases) if request.gpu.is_cpu else tuple(phases)


def _rollout_is_larger(request: Request) -> bool:
    """Whether a rollout takes at least what an evaluation takes."""
    setup = request.setup
    padded_alone = setup.is_padded(evaluation=True) and not setup.is_padded(evaluation=False)
    return setup.vllm or (setup.eval_rows <= setup.rollout_rows and not padded_alone)


def reserve_of(request: Request) -> int:
    """What is kept free of the card; nothing of a machine's RAM."""
    return 0 if request.gpu.is_cpu else f.reserve(request.gpu.usable_bytes)


def peak_of(request: Request, phases: tuple[Phase, ...]) -> float:
    """The largest phase, with the reserve: on the GPU, or in RAM where there is none."""
    peaks = (phase.host_peak if request.gpu.is_cpu else phase.gpu_peak for phase in phases)
    return max(peaks) + reserve_of(request)


def fits(request: Request) -> bool:
    return peak_of(request, phases_of(request)) <= request.gpu.usable_bytes and vllm_starts(request)


def drawing_fits(request: Request, rows: int) -> bool:
    """Whether a rollout of ``rows`` rows at once fits, whatever the update does."""
    setup = replace(request.setup, rollout_rows=rows)
    phase = _drawing(replace(request, setup=setup), "rollout")
    phases = (_on_host(phase) if request.gpu.is_cpu else phase,)
    return peak_of(request, phases) <= request.gpu.usable_bytes


def _value_bytes(request: Request) -> int:
    """Of weights and activations: bf16 on a GPU; on a CPU everything is held in fp32."""
    return 4 if request.gpu.is_cpu else 2


def trained_parameters(request: Request) -> int:
    setup = request.setup
    if setup.full_finetuning:
        return request.card.parameters
    return f.lora_parameters(request.card, setup.lora_r, setup.lora_targets)


def _weights(request: Request) -> list[Item]:
    card, setup, value = request.card, request.setup, _value_bytes(request)
    packed, plain = f.held_weights(card, four_bit=setup.four_bit, value_bytes=value, kept=request.kept)
    kind = "fp32" if request.gpu.is_cpu else "bf16"
    items = [Item("weights in NF4", packed, "0.516 B a weight of the layers' linear maps")] if packed else []
    if request.kept:
        why = request.packing.why
        items.append(Item("maps not packed", float(request.kept * value), f"in {kind} all the same, {why}"))
        plain -= request.kept * value
    what = "embeddings, head, norms" if setup.four_bit else "all parameters"
    return [*items, Item(f"weights in {kind}", plain, f"{what}, {value} B each")]


def _always(request: Request, *, gradients: bool) -> list[Item]:
    """What every phase of a step holds."""
    card, setup, trained = request.card, request.setup, trained_parameters(request)
    value, on_cpu = _value_bytes(request), request.gpu.is_cpu
    millions = f"{trained / 1e6:.1f} million parameters"
    items = _weights(request)
    each = value if setup.full_finetuning else 4
    if not setup.full_finetuning:
        items.append(Item("adapter", trained * 4.0, f"r {setup.lora_r}, {millions} in fp32"))
        if setup.reference:
            items.append(Item("reference adapter", trained * 4.0, "the frozen copy that grpo.beta > 0 needs"))
    elif setup.reference:
        items.append(Item("reference model", float(trained * value), "the second model that grpo.beta > 0 needs"))
    if gradients:
        items.append(Item("gradients", trained * float(each), f"{each} B a trained parameter"))
    optim = f.OPTIM_ON_CPU if on_cpu else setup.optim
    state = f.optimizer_state(trained, optim, full_bf16=setup.full_finetuning and not on_cpu)
    items.append(Item("optimizer", state, optim))
    if not on_cpu:
        items.append(Item("CUDA context", f.CUDA_CONTEXT, "assumed: 0.5 to 1 GiB"))
        if setup.four_bit:
            items.append(Item("unpacking buffer", f.dequantised_map(card), "the largest linear map in 16 bits"))
        items.append(Item("other", f.RESIDUAL, "fitted to Unsloth's law for Llama-3.1-8B"))
    return items


def _libraries(request: Request) -> Item:
    return Item("Python and libraries", f.LIBRARIES_ON_CPU if request.gpu.is_cpu else f.LIBRARIES, "assumed")


def _load(request: Request) -> Phase:
    items = _weights(request)
    if not request.gpu.is_cpu:
        items.append(Item("CUDA context", f.CUDA_CONTEXT, "assumed: 0.5 to 1 GiB"))
        if request.setup.four_bit:
            items.append(Item("one map before packing", f.dequantised_map(request.card), "16 bits"))
    shard = min(f.SHARD, 2 * request.card.parameters)
    return Phase("load", tuple(items), (_libraries(request), Item("one file of weights", shard, "while it is read")))


def _drawing(request: Request, name: str) -> Phase:
    """Completions are drawn: in a rollout, or for an evaluation."""
    card, setup, value = request.card, request.setup, _value_bytes(request)
    items = _always(request, gradients=False)
    rows = setup.eval_rows if name == "evaluation" else setup.rollout_rows
    if setup.vllm and not request.gpu.is_cpu:
        items += _vllm_pool(request)
        return Phase(name, tuple(items), (_libraries(request),))
    length = setup.prompt + setup.completion
    cache = f.kv_cache(card, rows, setup.prompt, setup.completion, value_bytes=value)
    group = min(rows, max(1, setup.generations))
    shared = f.kv_cache(card, rows, setup.prompt, setup.completion, group=group, value_bytes=value)
    start, ahead = f.decode_buffers(card, rows, setup.prompt, setup.completion, value)
    if request.gpu.is_cpu:
        start, ahead = 0, 0
    drawn = f.sampling(card, rows, nucleus=setup.nucleus, row_temperatures=setup.row_temperatures)
    reading, mask, building = _reading(request, rows, padded=setup.is_padded(evaluation=name == "evaluation"))
    turns = {"end": cache + ahead + drawn, "start": start + drawn, "prefill": reading + mask, "mask": building}
    fullest = max(turns, key=lambda turn: turns[turn])
    items += [
        Item("KV cache", cache, f"{rows} rows x {length:,} tokens, {_unshared(cache, shared)}", fullest == "end"),
        Item("cache growing", ahead, "512 tokens ahead, one layer copied; read, not measured", fullest == "end"),
        Item("sampling", drawn, "logits of one token a row, fp32", fullest in ("end", "start")),
        Item("prompts' cache twice", start, "at the first token; read, not measured", fullest == "start"),
        Item("reading the prompts", reading, f"{rows} x {setup.prompt:,} tokens and their cache", fullest == "prefill"),
    ]
    if mask:
        why = "prompts of different lengths: rows x prompt x prompt; read"
        items.append(Item("mask of the padding", mask, why, fullest == "prefill"))
    if building:
        items.append(Item("building that mask", building, "before the first layer; read", fullest == "mask"))
    return Phase(name, tuple(items), (_libraries(request),))


def _reading(request: Request, rows: int, *, padded: bool) -> tuple[float, float, float]:
    """Reading the prompts with their cache, the mask that lies there meanwhile, and what building it takes before."""
    card, prompt, value, on_gpu = request.card, request.setup.prompt, _value_bytes(request), not request.gpu.is_cpu
    work = f.prefill(card, rows * prompt, value)
    mask, building = f.padding_mask(rows, prompt, on_gpu=on_gpu) if padded else (0, 0)
    if padded and on_gpu:
        work = max(work, f.padded_attention(card, rows, prompt, value))
    return f.kv_cache(card, rows, prompt, 0, value_bytes=value) + work, mask, building


def _unshared(cache: float, shared: float) -> str:
    """Each row holds its own prompt. What the cache would be if a group held its prompt once."""
    return f"prompts not shared; shared {shared / f.GIB:.1f} GiB" if shared < cache else "prompts not shared"


def shared_row(request: Request) -> float:
    """The cache of one completion at its end, where a group holds its prompt once."""
    setup = request.setup
    group = max(1, setup.generations)
    return f.kv_cache(request.card, group, setup.prompt, setup.completion, group=group) / group


def vllm_starts(request: Request) -> bool:
    """Whether vLLM's share of the card, where it is used, holds the weights, its graphs and the cache of one row."""
    setup = request.setup
    if not setup.vllm or request.gpu.is_cpu:
        return True
    least = sum(item.bytes for item in _weights(request)) + f.vllm_overhead(request.card) + shared_row(request)
    return setup.vllm_share * request.gpu.usable_bytes >= least


def _vllm_pool(request: Request) -> list[Item]:
    """vLLM takes a share of the card, of which weights (shared with training) are a part."""
    share = int(request.setup.vllm_share * request.gpu.usable_bytes)
    weights = sum(item.bytes for item in _weights(request))
    overhead = f.vllm_overhead(request.card)
    one = shared_row(request)
    pool = max(share - weights - overhead, one)
    at_once = int(pool // one)
    return [
        Item("vLLM's KV cache", pool, f"gpu_memory_utilization {request.setup.vllm_share:g}: {at_once} rows, shared"),
        Item("vLLM's graphs", overhead, "read in unsloth_zoo, not measured"),
    ]


def _update(request: Request) -> Phase:
    """Forward and backward of one micro-batch, all rows as long as they may be."""
    card, setup, value = request.card, request.setup, _value_bytes(request)
    tokens = setup.update_tokens
    items = _always(request, gradients=True)
    if setup.vllm and not setup.standby and not request.gpu.is_cpu:
        items += _vllm_pool(request)
    of = f"{setup.micro_batch} x {setup.row:,} tokens"
    host = [_libraries(request)]
    layers = card.num_hidden_layers
    if setup.checkpointing == "false":
        kept = f.kept_layer(card, tokens, value) * layers
        items.append(Item("activations of all layers", kept, f"{of}, no checkpointing"))
    elif setup.checkpointing == "true" or request.gpu.is_cpu:
        items.append(Item("checkpoints", f.checkpoints(card, tokens, value), f"{of} x {layers} layers"))
    else:
        exact, pinned = f.checkpoints(card, tokens), f.pinned_checkpoints(card, tokens)
        host.append(Item("checkpoints, offloaded", exact, f"{of} x {layers} layers"))
        host.append(Item("rounding of pinned blocks", pinned - exact, "each takes a power of two; read"))
    layer, chunk = f.layer_work(card, tokens, value), f.logits_chunk(card, tokens)
    logits = Item("logits chunk", chunk, "with its gradient, fp32", chunk > layer)
    if setup.whole_logits or request.gpu.is_cpu:
        whole = f.whole_logits(card, tokens)
        why = "HER's loss" if setup.whole_logits else "stock transformers' loss, without a GPU,"
        logits = Item("logits", whole, f"of all rows at once: {why} takes no chunks", whole > layer)
    items += [
        Item("one layer, backward", layer, of, not logits.counts),
        logits,
        Item("other, by token", f.residual_work(card, tokens), "fitted: 15.55 B x hidden a token"),
    ]
    return Phase("update", tuple(items), tuple(host))


def _on_host(phase: Phase) -> Phase:
    """Without a GPU everything lies in RAM."""
    return Phase(phase.name, (), (*phase.host, *phase.gpu))

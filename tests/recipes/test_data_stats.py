from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from arcslim.cli.data_options import without_holdouts
from arcslim.config import PromptSection
from arcslim.presets import load_config
from arcslim.prompts.render import Renderer
from arcslim.recipes.data_stats import EDGES, Measured, row_stats, task_stats
from arcslim.tasks.split import build_split
from tests.real_tokenizers import real_tokenizer
from tests.recipes.made import write_preset


def test_lengths_are_those_of_the_renderer_in_both_formats_whatever_the_limit(tmp_path: Path) -> None:
    preset = write_preset(tmp_path, 'data.sources=["rearc:b1948b0a", "rearc:67a3c6ac=2"]', "prompt.max_tokens=1")
    config = without_holdouts(load_config(str(preset)).config)
    tokenizer = real_tokenizer("tiny")
    found = task_stats(config, tokenizer)
    tasks = build_split(config.data, config.run.seed, lambda task: True).train
    for one in found.measured:
        renderer = Renderer(tokenizer, PromptSection(grid=one.form))  # type: ignore[arg-type]
        assert sorted(one.lengths) == sorted(len(renderer.render(task, "").token_ids) for task in tasks)
    compact, spaced = found.measured
    assert spaced.lengths.sum() > 1.3 * compact.lengths.sum()
    assert found.longest_answer["spaced"] > found.longest_answer["compact"] > 4
    assert {name: counts["kept"] for name, counts in found.counts.items()} == {"rearc:b1948b0a": 4, "rearc:67a3c6ac": 8}


def test_fitting_and_the_histogram_agree_at_the_edges() -> None:
    measured = Measured("made", "compact", np.array([1, 256, 257, 2048, 2049, 4096, 8192, 16384, 16385, 90000]))
    assert [measured.fitting(limit) for limit in (2048, 4096, 8192, 16384)] == [4, 6, 7, 8]
    assert dict(zip(EDGES, measured.histogram(), strict=True)) == {
        0: 2, 256: 1, 512: 0, 1024: 1, 2048: 2, 4096: 1, 8192: 1, 16384: 2,
    }  # fmt: skip


def test_several_sources_stand_apart_and_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, side in (("a.json", 4), ("b.json", 9)):
        grids = rng.integers(0, 10, (3, side, side)).tolist()
        pairs = [{"input": grid, "output": grid} for grid in grids]
        (tmp_path / name).write_text(json.dumps({"train": pairs[:2], "test": pairs[2:]}))
    sources = json.dumps([str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    config = without_holdouts(load_config(None, [f"data.sources={sources}"]).config)
    found = task_stats(config, real_tokenizer("tiny"))
    assert [(one.source, one.form, len(one.lengths)) for one in found.measured] == [
        (source, form, 2 if source == "all" else 1)
        for form in ("compact", "spaced")
        for source in (*sorted(("a.json", "b.json"), key=[o.source for o in found.measured].index), "all")
    ]
    assert found.trivial == {"output_is_input": 2}


def test_rows_are_measured_whole_and_by_what_gets_loss(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"prompt": f"{n}?", "completion": f"<think>\n{'so ' * n}\n</think>\n\n{n}"} for n in range(1, 8)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = without_holdouts(load_config(None, [f'data.sources=["{file}"]', "sft.max_length=16"]).config)
    found = row_stats(config, real_tokenizer("tiny"))
    whole, trained = found.measured
    assert (whole.form, trained.form) == ("rows", "trained") and len(whole.lengths) == 7, "none was over a limit"
    assert np.all(whole.lengths > trained.lengths) and np.all(np.diff(np.sort(trained.lengths)) > 0)

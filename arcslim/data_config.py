"""``[data]``: where tasks come from, what is held out, and what is done to them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from arcslim.section import Count, Positive, Section, Share
from arcslim.sft_config import ColumnsSection


class DataSection(Section):
    """Where tasks come from, and what is held out."""

    columns: ColumnsSection = ColumnsSection()

    sources: tuple[str, ...] = Field(
        ("rearc",),
        min_length=1,
        description="specs with an optional weight: `rearc`, `rearc:ID,ID=0.5`, `arc1:train`, a JSON file, a folder",
    )
    tasks: Positive = Field(4000, description="how many training tasks to draw from the sources")
    pairs: Annotated[int, Field(ge=1, le=10)] = Field(
        4, description="example pairs of a generated task; one test pair more"
    )
    difficulty_min: Share = Field(0.0, description="RE-ARC's lower difficulty bound")
    difficulty_max: Share = Field(0.2, description="RE-ARC's upper difficulty bound: sizes and clutter grow with it")
    min_side: Annotated[int, Field(ge=1, le=30)] = Field(
        3, description="generated instances with a shorter side are passed over"
    )
    max_side: Annotated[int, Field(ge=1, le=30)] = Field(
        30, description="generated instances with a longer side are passed over"
    )
    allow_identity: bool = Field(False, description="keep generated instances whose output equals the input")
    drop_trivial: bool = Field(
        False, description="leave out tasks that need no thinking: the input copied or tiled, always the same output"
    )
    attempts: Positive = Field(
        200, description="how often a generator may be asked again for one task before it is given up"
    )
    workers: Count = Field(
        0, description="processes that generate RE-ARC tasks, this one among them; 0: one a core; same tasks"
    )
    keep_out: tuple[str, ...] = Field(
        (), description="specs of tasks that are never trained on, turned or recoloured either: what you will test on"
    )
    augment_symmetry: bool = Field(
        False, description="show each training task turned or mirrored: one of the 8 symmetries, drawn for the task"
    )
    augment_colors: Literal["none", "keep0", "all"] = Field(
        "none", description="recolour each training task: `keep0` leaves 0, the usual background, as it is"
    )
    augment_order: bool = Field(False, description="show the examples of each training task in a drawn order")
    holdout_select: Count = Field(100, description="tasks held out to choose the best checkpoint on")
    holdout_test: Count = Field(0, description="tasks held out for the final figures")
    holdout_families: tuple[str, ...] = Field((), description="RE-ARC generators never trained on: tested apart")
    holdout_family_tasks: Count = Field(100, description="tasks of those generators, evenly over them")
    holdout_arc1: Count = Field(0, description="small ARC-1 tasks (that fit the prompt) tested apart at the end")

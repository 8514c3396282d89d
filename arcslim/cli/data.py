"""``arcslim data``: build, check, filter and look at data. One command a file; heavy imports inside their bodies."""

from __future__ import annotations

import typer

from arcslim.cli import data_build, data_check, data_filter, data_preview, data_stats

app = typer.Typer(help="Build data, check it, filter it, and see exactly what is trained on.", no_args_is_help=True)
app.command("build")(data_build.build)
app.command("check")(data_check.check)
app.command("filter")(data_filter.filter_)
app.command("preview")(data_preview.preview)
app.command("stats")(data_stats.stats)

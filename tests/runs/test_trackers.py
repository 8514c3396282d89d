"""Case 28: whatever tracker is asked for, nobody is asked for a login."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcslim.errors import InputError
from arcslim.runs.trackers import prepare_report_to


def everything(module: str) -> bool:
    return True


def test_case_28_wandb_without_a_key_records_offline(tmp_path: Path) -> None:
    """Case 28: closed standard input and no key."""
    variables = {"HOME": str(tmp_path)}
    chosen, warnings = prepare_report_to(("wandb",), tmp_path, variables=variables, installed=everything)
    assert chosen == ["wandb"]
    assert variables["WANDB_MODE"] == "offline"
    assert variables["WANDB_DIR"] == str(tmp_path)
    assert "offline" in warnings[0]
    assert "wandb sync" in warnings[0]


def test_case_28_online_mode_without_a_key_would_ask_too(tmp_path: Path) -> None:
    """Case 28."""
    variables = {"HOME": str(tmp_path), "WANDB_MODE": "online"}
    _, warnings = prepare_report_to(("wandb",), variables=variables, installed=everything)
    assert (variables["WANDB_MODE"], len(warnings)) == ("offline", 1)


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_the_users_own_quiet_mode_is_no_news(tmp_path: Path, mode: str) -> None:
    variables = {"HOME": str(tmp_path), "WANDB_MODE": mode}
    assert prepare_report_to(("wandb",), variables=variables, installed=everything)[1] == []
    assert variables["WANDB_MODE"] == mode


def test_a_key_or_a_netrc_login_stays_online(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "WANDB_API_KEY": "k" * 40}
    assert prepare_report_to(("wandb",), variables=variables, installed=everything) == (["wandb"], [])
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine api.wandb.ai\n  login user\n  password " + "k" * 40 + "\n")
    netrc.chmod(0o600)
    variables = {"HOME": str(tmp_path)}
    assert prepare_report_to(("wandb",), variables=variables, installed=everything)[1] == []
    assert "WANDB_MODE" not in variables
    variables = {"HOME": str(tmp_path), "WANDB_BASE_URL": "https://wandb.example.org"}
    assert len(prepare_report_to(("wandb",), variables=variables, installed=everything)[1]) == 1
    netrc.write_text("machine {{{")
    assert len(prepare_report_to(("wandb",), variables={"HOME": str(tmp_path)}, installed=everything)[1]) == 1


def test_case_28_trackio_without_a_token_stays_here(tmp_path: Path) -> None:
    """Case 28."""
    variables = {"HOME": str(tmp_path), "TRACKIO_SPACE_ID": "me/space"}
    _, warnings = prepare_report_to(("trackio",), variables=variables, installed=everything)
    assert "TRACKIO_SPACE_ID" not in variables
    assert "me/space" in warnings[0]
    variables = {"HOME": str(tmp_path), "TRACKIO_SPACE_ID": "me/space", "HF_TOKEN": "hf_x"}
    assert prepare_report_to(("trackio",), variables=variables, installed=everything)[1] == []


@pytest.mark.parametrize(("name", "install"), [("wandb", "arcslim[wandb]"), ("trackio", "arcslim[trackio]")])
def test_a_missing_package_names_the_extra(name: str, install: str) -> None:
    with pytest.raises(InputError) as caught:
        prepare_report_to((name,), variables={}, installed=lambda module: False)
    assert install in str(caught.value)


def test_tensorboard_writes_into_the_run_folder(tmp_path: Path) -> None:
    variables: dict[str, str] = {}
    assert prepare_report_to(("tensorboard", "none"), tmp_path, variables=variables)[0] == ["tensorboard"]
    assert variables == {"TENSORBOARD_LOGGING_DIR": str(tmp_path / "tensorboard")}


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(InputError, match="no tracker 'mlflow'"):
        prepare_report_to(("mlflow",), variables={})

"""What docs/operations.md and the README say about the service is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.service.configfile import load_config

ROOT = Path(__file__).resolve().parents[1]
MANUAL = (ROOT / "docs" / "operations.md").read_text()
README = (ROOT / "README.md").read_text()


def test_every_check_of_doctor_is_explained() -> None:
    checks = set(re.findall(r'Check\(\s*"([a-z-]+)"', (ROOT / "app" / "service" / "doctor.py").read_text()))
    assert set(re.findall(r"^\| `([a-z-]+)` \|", MANUAL, re.M)) == checks


@pytest.mark.parametrize("text", [MANUAL, README], ids=["manual", "readme"])
def test_the_configuration_shown_is_valid(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/x")
    shown = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if "servers:" in block)
    path = tmp_path / "crashcart.yaml"
    path.write_text(shown)
    assert load_config(path).servers["kimi"].engine == "sglang"


def test_every_metric_that_an_alert_asks_for_exists() -> None:
    told = (ROOT / "app" / "service" / "metrics.py").read_text()
    asked = set(re.findall(r"expr: (?:sum\()?(crashcart_\w+)", MANUAL))
    assert len(asked) == 3
    assert {name for name in asked if f'"{name}"' not in told} == set()


def test_every_document_that_the_readme_links_is_there() -> None:
    linked = re.findall(r"\]\(((?:docs/)?[\w./-]+\.(?:md|svg|png))\)", README)
    assert [path for path in linked if not (ROOT / path).is_file()] == []

"""The image and the compose file: valid by their own rules, and what they start works outside of a container, too."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from compose_spec.models import ComposeSpecification

from tests.flow.service import CRASHCART, free_port

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-long-random-word"
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def instruction(name: str) -> list[str]:
    """The words of the last instruction of that name in its JSON form."""
    found = re.findall(rf"^\s*{name}\s[^\[\n]*(\[.*\])\s*$", DOCKERFILE, re.M)
    words: list[str] = json.loads(found[-1])
    return words


class Outside:
    """The image's files at places of this machine."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.logs, self.state = folder / "logs", folder / "state"
        self.logs.mkdir()
        text = (ROOT / "deploy" / "crashcart.yaml").read_text()
        self.config = folder / "crashcart.yaml"
        text = text.replace("0.0.0.0:8321", f"0.0.0.0:{self.port}")
        self.config.write_text(text.replace("/logs", str(self.logs)))
        self.env = {**os.environ, "CRASHCART_TOKEN": TOKEN, "CRASHCART_STATE": str(self.state)}
        self.env.pop("SLACK_WEBHOOK_URL", None)

    def words(self, words: list[str]) -> list[str]:
        """A command of the image, as it is typed here."""
        places = {
            "/etc/crashcart/crashcart.yaml": str(self.config),
            "/opt/practice": str(ROOT / "fixtures" / "practice"),
            "/logs": str(self.logs),
            "127.0.0.1:8321": f"127.0.0.1:{self.port}",
        }
        typed = []
        for word in words:
            for there, here in places.items():
                word = word.replace(there, here)
            typed.append(sys.executable if word == "python" else word)
        return typed

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(words), env=self.env, capture_output=True, text=True, timeout=40)

    def get(self, path: str) -> Any:
        answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        return answer.raise_for_status().json()


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """The image's ENTRYPOINT and CMD under way."""
    place = Outside(tmp_path_factory.mktemp("container"))
    entry = instruction("ENTRYPOINT")
    assert entry == ["crashcart"]
    process = subprocess.Popen([*CRASHCART, *place.words(instruction("CMD"))], env=place.env)
    deadline = time.monotonic() + 30
    while place.run(instruction("HEALTHCHECK")).returncode and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.2)
    yield place
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_the_dockerfile_has_nothing_that_hadolint_minds() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    said = subprocess.run([str(hadolint), str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "")


def test_the_compose_file_is_valid_by_the_specification() -> None:
    ComposeSpecification.model_validate(COMPOSE)


def test_what_the_image_copies_is_there() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    assert [word for word in copied if not (ROOT / word).exists()] == []


def test_what_the_image_copies_is_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]}
    assert {word for word in copied if not any(Path(word).is_relative_to(one) for one in kept)} == set()


def test_both_files_ask_for_health_in_the_same_way() -> None:
    assert instruction("HEALTHCHECK") == COMPOSE["services"]["crashcart"]["healthcheck"]["test"][1:]


def test_the_service_is_healthy_by_the_check_of_the_image(outside: Outside) -> None:
    assert outside.run(instruction("HEALTHCHECK")).returncode == 0


def test_a_port_open_to_others_asks_for_the_token(outside: Outside) -> None:
    assert httpx.get(f"http://127.0.0.1:{outside.port}/incidents").status_code == 401


def test_the_practice_server_of_the_compose_file_becomes_an_incident(outside: Outside) -> None:
    words = outside.words(COMPOSE["services"]["practice"]["command"])
    own_state = {**outside.env, "CRASHCART_STATE": str(outside.state.with_name("practice-state"))}
    ended = subprocess.run([*CRASHCART, *words], env=own_state, capture_output=True, text=True, timeout=40)
    assert ended.returncode == 2
    deadline = time.monotonic() + 20
    while not (items := outside.get("/incidents")["items"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [(item["server"], item["category"]) for item in items] == [("practice", "unknown-argument")]


def test_without_a_token_the_service_refuses_to_be_open_to_others(outside: Outside) -> None:
    env = {name: value for name, value in outside.env.items() if name != "CRASHCART_TOKEN"}
    words = [*CRASHCART, *outside.words(instruction("CMD"))]
    ended = subprocess.run(words, env=env, capture_output=True, text=True, timeout=40)
    assert ended.returncode == 2
    assert "CRASHCART_TOKEN" in ended.stderr


def test_the_packages_of_the_image_are_those_that_are_tested() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^([\w.-]+==\S+)", (ROOT / name).read_text(), re.M))

    assert pins("requirements.runtime.lock") - pins("requirements.lock") == set()

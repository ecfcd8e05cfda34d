"""`crashcart.yaml`: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from app.core.errors import ConfigError
from app.core.vocabulary import Engine, Mode, Safety
from app.service.config import (
    CanaryConfig,
    Config,
    HeartbeatConfig,
    HooksConfig,
    LimitsConfig,
    RetentionConfig,
    ServerConfig,
    SlackConfig,
)
from app.service.configfile import doubtful, find_config, load_config

TOKEN = "0123456789abcdef0123456789abcdef"
EXAMPLE = """
listen: 127.0.0.1:8321
token: ${CRASHCART_TEST_TOKEN}
log_roots: [/var/log, /data]
slack: {webhook_url: "${HOOK}"}
rules: [/etc/crashcart/rules]
retention: {days: 90, max_gib: 5}
servers:
  kimi:
    command: [python3, -m, sglang.launch_server, --model-path, /models/kimi]
    env: {SGLANG_ENABLE_SPEC_V2: "True"}
    cwd: /srv
    health: http://127.0.0.1:30000/health
    mode: propose
    allow: safe
    settle: 60s
    max_relaunches: 5
  old-box:
    watch: [/data/eagle3/**/logs/*.log]
    engine: sglang
    port: 30001
"""

Loading = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loading:
    """Loads a configuration from its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRASHCART_TEST_TOKEN", TOKEN)
    monkeypatch.setenv("HOOK", "https://hooks.slack.com/services/T/B/X")

    def loaded(text: str, host: str | None = None, port: int | None = None) -> Config:
        path = tmp_path / "crashcart.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, host=host, port=port)

    return loaded


@pytest.fixture
def problems(load: Loading) -> Callable[[str], list[str]]:
    def found(text: str) -> list[str]:
        with pytest.raises(ConfigError) as raised:
            load(text)
        return list(raised.value.problems)

    return found


def test_the_documented_example_is_read_as_it_stands(load: Loading) -> None:
    config = load(EXAMPLE)

    assert config.listen == ("127.0.0.1", 8321)
    assert config.secrets == (TOKEN, "https://hooks.slack.com/services/T/B/X")
    assert list(config.supervised) == ["kimi"]
    assert config.servers["old-box"].watch == ("/data/eagle3/**/logs/*.log",)


def test_a_supervised_server_has_its_environment_in_front_of_its_command(load: Loading) -> None:
    launch = load(EXAMPLE).servers["kimi"].launch

    assert launch is not None
    assert launch.words()[:4] == ("SGLANG_ENABLE_SPEC_V2=True", "python3", "-m", "sglang.launch_server")


def test_a_command_in_one_string_is_split_as_a_shell_splits(load: Loading) -> None:
    server = load("servers: {a: {command: \"serve --name 'two words' --port 80\"}}").servers["a"]

    assert server.command == ("serve", "--name", "two words", "--port", "80")


def test_numbers_in_commands_and_environments_stay_as_typed(load: Loading) -> None:
    server = load("servers: {a: {command: [serve, --fraction, 0.80, --port, 080], env: {A: 1_0, B: yes}}}").servers["a"]

    assert server.command == ("serve", "--fraction", "0.80", "--port", "080")
    assert server.env == {"A": "1_0", "B": "yes"}


def test_an_empty_file_gives_the_defaults(load: Loading) -> None:
    config = load("")

    assert (config.listen.url, config.token, config.servers) == ("http://127.0.0.1:8321", None, {})


def test_a_watched_servers_health_endpoint_follows_from_engine_and_port(load: Loading) -> None:
    assert load(EXAMPLE).servers["old-box"].health_url == "http://127.0.0.1:30001/health"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listn: 127.0.0.1:1", "line 1: listn: there is no such key. Did you mean listen?"),
        ("retention:\n  dys: 3", "line 2: retention.dys: there is no such key. Did you mean days?"),
        (
            "servers:\n  a:\n    command: x\n    mod: auto",
            "line 4: servers.a.mod: there is no such key. Did you mean mode?",
        ),
        ("zzz: 1", "line 1: zzz: there is no such key. Remove it."),
        (
            "servers: {a: {command: x, mode: atuo}}",
            "line 1: servers.a.mode: 'atuo' is not possible here. Write one of 'off', 'propose' or 'auto'.",
        ),
        (
            "servers: {a: {command: x, allow: manual}}",
            "line 1: servers.a.allow: 'manual' is not possible here. Write one of",
        ),
        (
            "servers: {a: {command: x, settle: 3 weeks}}",
            "line 1: servers.a.settle: '3 weeks' is no span of time. Write it like 30, 30s, 2m or 1h30m.",
        ),
        (
            "limits: {body: lots}",
            "line 1: limits.body: 'lots' is no amount of data. Write it like 200MiB, 5GiB or 20MB.",
        ),
        ("listen: 8321x", "line 1: listen: '8321x' is no address. Write it like 127.0.0.1:8321."),
        ('servers: {a: {command: "x \'y"}}', "line 1: servers.a.command: The command can't be split into words"),
        ("servers: {a: {command: []}}", "line 1: servers.a.command: It is empty."),
        ("listen: 8321", "line 1: listen: '8321' is no address. Write it like 127.0.0.1:8321."),
        ("servers: [a]", "line 1: servers: keys are expected here. Write `name: value` lines below it, further in."),
        (
            "retention: {days: soon}",
            "retention.days: 'soon': a whole number is expected here. Write it like 90.",
        ),
        ("retention: {days: 0}", "line 1: retention.days: 0 is not possible here: it must be at least 1."),
        ("retention: {server_log: 200}", "at least 65,536 bytes. A size is written like 200MiB."),
        ("log_roots: {a: 1}", "line 1: log_roots: a list is expected here. Write it like [/var/log/vllm]."),
        ("slack: https://h.example.org/x", "keys are expected here. Write it like {webhook_url: "),
        ("slack: {webhook_url: h.example.org/x}", "line 1: slack.webhook_url: It is no URL. Write it like https://"),
        ("public_url: example.org", "'example.org': this is no URL. Write it like https://crashcart.example.org."),
        ("allowed_hosts: ['http://x.y']", "line 1: allowed_hosts[0]: 'http://x.y' is no host name."),
        ("token: пароль-пароль-пароль", "line 1: token: No HTTP header can carry it."),
        ("servers: {a: {command: x, allow: all}}", "Write one of 'safe' or 'degrading'."),
        ("servers: {a: {command: 'x ${HOME'}}", "'${HOME' begins no variable. Write ${NAME}, or $${"),
        (
            "servers: {a: {command: x, env: {A=B: c}}}",
            "servers.a.env.A=B: 'A=B' is no name of an environment",
        ),
        ("log_roots: [/]\nservers: {a: {watch: [/tmp]}}", "/tmp is a folder. Write which files: /tmp/*.log"),
        ("servers: {a: {health: 'localhost:30'}}", "line 1: servers.a.health: 'localhost:30': this is no URL."),
        ("servers: {a: {}}", "line 1: servers.a: neither `command` (to supervise it) nor `watch`"),
        ("servers: {a: {command: x, watch: /var/log/x}}", "line 1: servers.a.watch: a supervised server's output"),
        ("servers: {a: {watch: /var/x.log}}", "/var/x.log lies in none of log_roots. Add /var to log_roots."),
        ("servers: {a: {watch: x.log}}", "line 1: servers.a.watch[0]: 'x.log' is not absolute."),
        (
            "log_roots: [/var]\nservers: {a: {watch: [/var/ok.log, /var/../etc/x]}}",
            "line 2: servers.a.watch[1]: /var/../etc/x goes upwards. Write it without `..`.",
        ),
        (
            "log_roots: [/var]\nservers: {a: {watch: /var/x, cwd: /srv}}",
            "line 2: servers.a.cwd: it belongs to a `command`",
        ),
        ("servers: {a b: {command: x}}", "line 1: servers.a b: 'a b' can't be a server's name."),
        ("token: short", "line 1: token: a token of less than 16 characters can be guessed."),
        ("listen: 0.0.0.0:8321", "line 1: listen: 0.0.0.0 can be reached from other machines, which demands a token."),
        ("retention: {days: 1}\nretention: {days: 2}", "line 2: retention: stands there twice. Remove one."),
        (
            "token: ${NOT_SET_ANYWHERE}",
            "line 1: token: the variable NOT_SET_ANYWHERE is not set. Set it, or write ${NOT_SET_ANYWHERE:-}",
        ),
    ],
)
def test_a_problem_names_line_field_and_mend(problems: Callable[[str], list[str]], text: str, expected: str) -> None:
    found = problems(text)

    assert len(found) == 1
    assert expected in found[0]


def test_all_problems_are_told_at_once_in_the_order_of_the_file(problems: Callable[[str], list[str]]) -> None:
    found = problems("listn: 1\nretention: {days: 0}\nservers: {a: {mode: x, command: y}}")

    assert [text.split(":")[0] for text in found] == ["line 1", "line 2", "line 3"]


@pytest.mark.parametrize("text", ["a: [", "\tx: 1", "- a", "!!python/object:os.system {}", "a: *b"])
def test_what_is_no_configuration_is_refused(load: Loading, text: str) -> None:
    with pytest.raises(ConfigError, match=r"crashcart\.yaml"):
        load(text)


def test_aliases_that_multiply_are_refused(load: Loading) -> None:
    layers = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    with pytest.raises(ConfigError, match="too many values"):
        load("\n".join(["a0: &a0 [1]", *layers]))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load_config(tmp_path / "none.yaml")


def test_variables_have_defaults_and_a_dollar_can_be_written(load: Loading) -> None:
    server = load("servers: {a: {command: ['${NOT_SET:-serve}', '$$HOME', '$HOME']}}").servers["a"]

    assert server.command == ("serve", "$HOME", "$HOME")


def test_the_environment_goes_over_the_file(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_RETENTION__DAYS", "7")
    monkeypatch.setenv("CRASHCART_LOG_ROOTS", "/var/log:/srv")
    config = load("retention: {days: 30, max_gib: 2}\nlog_roots: [/data]")

    assert (config.retention.days, config.retention.max_gib) == (7, 2)
    assert config.log_roots == (Path("/var/log"), Path("/srv"))


def test_a_wrong_variable_is_named(problems: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_RETENTION__DAYS", "many")

    assert problems("")[0].startswith("retention.days (from CRASHCART_RETENTION__DAYS): ")


def test_host_and_port_of_the_command_line_go_over_all(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_LISTEN", "127.0.0.1:9000")

    assert load("listen: 127.0.0.1:8000", port=9001).listen == ("127.0.0.1", 9001)
    assert load("listen: 127.0.0.1:8000", host="localhost").listen == ("localhost", 9000)


def test_a_host_of_the_command_line_demands_a_token_too(load: Loading) -> None:
    with pytest.raises(ConfigError, match="demands a token"):
        load("", host="0.0.0.0")


def test_a_secret_is_not_shown_when_the_configuration_is(load: Loading) -> None:
    assert TOKEN not in repr(load(EXAMPLE))


def test_sizes_and_spans_are_read_as_people_write_them(load: Loading) -> None:
    config = load("limits: {body: 2 MiB}\nretention: {server_log: 1GiB, every: 30m}")

    assert (config.limits.body, config.retention.server_log, config.retention.every) == (2**21, 2**30, 1800.0)


def test_a_servers_own_words_are_enumerations(load: Loading) -> None:
    server = load("servers: {a: {command: x, engine: vllm, mode: auto, allow: degrading}}").servers["a"]

    assert (server.engine, server.mode, server.allow) == (Engine.VLLM, Mode.AUTO, Safety.DEGRADING)


def test_the_file_is_found_in_the_folder_or_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_CONFIG", raising=False)
    assert find_config(None) is None

    Path("crashcart.yaml").touch()
    assert find_config(None) == Path("crashcart.yaml")

    monkeypatch.setenv("CRASHCART_CONFIG", "/etc/crashcart.yaml")
    assert find_config(None) == Path("/etc/crashcart.yaml")


@pytest.mark.parametrize(
    ("model", "before"),
    [
        (Config, ""),
        (SlackConfig, "slack."),
        (RetentionConfig, "retention."),
        (LimitsConfig, "limits."),
        (HeartbeatConfig, "heartbeat."),
        (ServerConfig, "servers.NAME."),
        (HooksConfig, "servers.NAME.hooks."),
        (CanaryConfig, "servers.NAME.canary."),
    ],
)
def test_every_key_is_documented(model: type[BaseModel], before: str) -> None:
    text = Path(__file__).parents[2].joinpath("docs/configuration.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Za-z_.]+)` \|", text, re.MULTILINE))

    assert {before + name for name in model.model_fields} <= documented


def test_no_key_is_documented_that_does_not_exist() -> None:
    text = Path(__file__).parents[2].joinpath("docs/configuration.md").read_text(encoding="utf-8")
    parts: dict[str, type[BaseModel]] = {
        "": Config,
        "slack.": SlackConfig,
        "retention.": RetentionConfig,
        "limits.": LimitsConfig,
        "heartbeat.": HeartbeatConfig,
        "servers.NAME.": ServerConfig,
        "servers.NAME.hooks.": HooksConfig,
        "servers.NAME.canary.": CanaryConfig,
    }
    known = {before + name for before, model in parts.items() for name in model.model_fields}

    assert set(re.findall(r"^\| `([A-Za-z_.]+)` \|", text, re.MULTILINE)) == known


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "10.0.0.1"])
def test_a_webhook_on_a_private_address_is_doubtful(load: Loading, host: str) -> None:
    [text] = doubtful(load(f"slack: {{webhook_url: 'http://{host}/x'}}"))
    assert text.startswith("slack.webhook_url lies on a private address")


def test_a_public_webhook_is_not_doubtful(load: Loading) -> None:
    assert list(doubtful(load("slack: {webhook_url: 'https://hooks.example.org/x'}"))) == []


def test_a_key_with_nothing_below_it_means_its_default(load: Loading) -> None:
    assert load("servers:\nslack:\nlog_roots:\n") == load("")


def test_a_variable_that_holds_no_json_is_named(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_SERVERS__A__WATCH", "/var/log/a.log")
    with pytest.raises(ConfigError, match="CRASHCART_SERVERS__A__WATCH: this is no JSON"):
        load("")

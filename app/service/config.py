"""`crashcart.yaml`: what may stand in it, and what each key means.

Values come from, first wins: the command line, `CRASHCART_*` variables, the file, the defaults here.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from app.core.command import Command
from app.core.durations import seconds
from app.core.errors import CrashcartError
from app.core.sizes import size
from app.core.vocabulary import Engine, Mode, Safety
from app.core.windows import Window, window
from app.service.options import Canary, default_health
from app.supervise.hooks import Hooks

DEFAULT_PORT = 8321


class Listen(NamedTuple):
    """Where the service listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The address as a browser of this machine wants it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"


def _told(read: Callable[[str], object], kinds: type | tuple[type, ...], value: object) -> object:
    """Runs one of our readers over text, its error in the form that pydantic collects; other values as they are."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        return value
    try:
        return read(str(value))
    except CrashcartError as error:
        raise ValueError(f"{error} {error.mend or ''}".strip()) from error


def _listen(text: str) -> Listen:
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise ValueError(f"{text!r} is no address. Write it like 127.0.0.1:8321.")
    return Listen(host.strip("[]"), int(port))


def _words(value: object) -> object:
    """A command as words: a list of them, or one string that is split as a shell splits."""
    if isinstance(value, str):
        value = _told(lambda text: Command.from_string(text).words(), str, value)
    if not value:
        raise ValueError("It is empty. Write the launch command.")
    return value


def _listed(separator: str, value: object) -> object:
    """A list in one string, as an environment variable holds it."""
    return [part for part in value.split(separator) if part] if isinstance(value, str) else value


def _secret(value: object) -> object:
    return None if value == "" else value


def _secret_url(like: str, secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and not _is_url(secret.get_secret_value()):
        raise ValueError(f"It is no URL. Write it like {like} (it is not shown here).")
    return secret


def _token(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and re.fullmatch(r"[!-~]+", secret.get_secret_value()) is None:
        raise ValueError("No HTTP header can carry it. Write it in ASCII letters, digits and signs, without spaces.")
    return secret


def _url(text: str) -> str:
    if not _is_url(text):
        raise PydanticCustomError("url", "is no URL")
    return text


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:
        return False


def _host(text: str) -> str:
    if re.fullmatch(r"[\w-]+(?:\.[\w-]+)*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*", text, re.ASCII) is None:
        raise ValueError(
            f"{text!r} is no host name. Write the name alone, such as gpu-1.example.org: no scheme, no port."
        )
    return text


def _variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name!r} is no name of an environment variable. Write it like CUDA_VISIBLE_DEVICES.")
    return name


Seconds = Annotated[float, BeforeValidator(partial(_told, seconds, (str, int, float))), Field(ge=0)]
Bytes = Annotated[int, BeforeValidator(partial(_told, size, (str, int))), Field(ge=0)]
Address = Annotated[Listen, NoDecode, BeforeValidator(partial(_told, _listen, (str, int)))]
Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(partial(_listed, ":"))]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
Windows = Annotated[
    tuple[Annotated[Window, BeforeValidator(partial(_told, window, str))], ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
Secret = Annotated[SecretStr | None, BeforeValidator(_secret)]
Token = Annotated[Secret, AfterValidator(_token)]
WebhookUrl = Annotated[Secret, AfterValidator(partial(_secret_url, "https://hooks.slack.com/services/…"))]
HeartbeatUrl = Annotated[Secret, AfterValidator(partial(_secret_url, "https://watch.example.org/ping/…"))]
Url = Annotated[str, AfterValidator(_url)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], NoDecode, BeforeValidator(partial(_listed, ","))]
Variables = dict[Annotated[str, AfterValidator(_variable)], str]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)


class SlackConfig(_Part):
    """Where alerts go."""

    webhook_url: WebhookUrl = Field(default=None, description="Slack's incoming webhook. Without it nobody is told.")
    allow_private_addresses: bool = Field(
        default=False, description="Whether the webhook may lie on a private or loopback address (a relay of your own)."
    )
    timeout: Seconds = Field(default=10.0, description="How long one post may take.")


class RetentionConfig(_Part):
    """What is kept, and for how long."""

    days: int = Field(
        default=90, ge=1, description="Resolved incidents older than this are removed; rare ones are kept."
    )
    max_gib: float = Field(default=5.0, gt=0, description="How large the state folder may grow; the oldest goes first.")
    server_log: Bytes = Field(
        default=200 * 2**20,
        ge=2**16,
        description="The kept output of a supervised server is rotated at this size.",
    )
    every: Seconds = Field(default=3600.0, gt=0, description="How often old things are looked for.")


class LimitsConfig(_Part):
    """Bounds of what is taken in."""

    body: Bytes = Field(
        default=10 * 2**20,
        ge=1024,
        description="Largest body of a request, unpacked; more gets 413.",
    )


class HooksConfig(_Part):
    """Commands around a server's end and beginning; each has the variables CRASHCART_SERVER, _PORT and _PID."""

    before_stop: Words | None = Field(
        default=None, description="Run before a living server is ended: take it out of the load balancer."
    )
    after_ready: Words | None = Field(default=None, description="Run when it is ready: put it back.")
    timeout: Seconds = Field(default=30.0, gt=0, description="How long a hook may take.")

    @property
    def hooks(self) -> Hooks:
        """The same for who runs them."""
        return Hooks(self.before_stop or (), self.after_ready or (), self.timeout)


class CanaryConfig(_Part):
    """A real request by which a server proves that it serves."""

    url: Url = Field(description="Where it is posted to: the server's own completions endpoint, say.")
    body: dict[str, Any] = Field(description="The JSON that is posted. Ask for one token: it costs each time.")
    every: Seconds = Field(default=300.0, ge=1, description="How often it is repeated.")
    timeout: Seconds = Field(default=60.0, gt=0, description="How long an answer may take.")

    @property
    def canary(self) -> Canary:
        """The same for who sends it."""
        return Canary(self.url, json.dumps(self.body), self.every, self.timeout)


class HeartbeatConfig(_Part):
    """A sign of life for a watch from outside."""

    url: HeartbeatUrl = Field(
        default=None, description="Asked with GET as long as every loop works: a dead man's switch."
    )
    every: Seconds = Field(default=60.0, ge=5, description="How often.")


class ServerConfig(_Part):
    """One server: supervised (`command`) or only watched (`watch`)."""

    command: Words | None = Field(
        default=None,
        description="The launch command: a list, or one string split as a shell does.",
    )
    env: Variables = Field(
        default={},
        description="Environment variables of the launch command.",
    )
    cwd: Path | None = Field(default=None, description="The folder that the command is started in.")
    watch: Patterns = Field(
        default=(),
        description="Log files to follow: absolute paths or globs (`**` for any depth).",
    )
    engine: Engine | None = Field(default=None, description="The engine, where command or log do not tell.")
    port: int | None = Field(
        default=None, ge=1, le=65535, description="The port of a watched server, to find its process."
    )
    health: Url | None = Field(
        default=None,
        description="Its health endpoint (default: the engine's own).",
    )
    mode: Mode = Field(default=Mode.PROPOSE, description="What may be done after a crash: off, propose or auto.")
    allow: Literal[Safety.SAFE, Safety.DEGRADING] = Field(default=Safety.SAFE, description="What auto may do alone.")
    settle: Seconds = Field(default=60.0, description="How long it must stay ready until a fix has held.")
    hang_restart: Seconds = Field(
        default=300.0,
        description="How long a server that was ready shows no sign of life until auto restarts it; 0: never.",
    )
    max_relaunches: int = Field(default=5, ge=0, description="Changed commands in one incident.")
    preflight: bool = Field(default=True, description="Check the command before it is started.")
    canary: CanaryConfig | None = Field(default=None, description="A real request by which it proves that it serves.")
    hands_off: Windows = Field(
        default=(),
        description="Weekly spans, in local time, in which nothing is done alone: `Sat 02:00-06:00`.",
    )
    hooks: HooksConfig = Field(default=HooksConfig(), description="Commands around its end and beginning.")
    start: bool = Field(default=True, description="Start it together with the service; else only on a person's wish.")

    @property
    def launch(self) -> Command | None:
        """The launch command with its environment in front; None for a server that is only watched."""
        if self.command is None:
            return None
        given = [f"{name}={value}" for name, value in self.env.items()]
        return Command.parse((*given, *self.command), engine=self.engine)

    @property
    def health_url(self) -> str | None:
        """The endpoint asked: the one given, else what engine and port say."""
        if self.health is not None:
            return self.health
        if self.launch is not None:
            return default_health(self.launch, self.engine)
        if self.port is None or self.engine is None:
            return None
        return default_health(Command.parse(("server", "--port", str(self.port))), self.engine)


class Config(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix="CRASHCART_", env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=False
    )

    listen: Address = Field(
        default=Listen("127.0.0.1", DEFAULT_PORT),
        description="Address and port of API and pages. Not loopback: needs `token`.",
    )
    token: Token = Field(
        default=None, description="What API calls carry as `Authorization: Bearer …` and people log in with."
    )
    allowed_hosts: Hosts = Field(
        default=(),
        description="Further names under which browsers may reach the service.",
    )
    public_url: Url | None = Field(
        default=None,
        description="The address that links in alerts begin with (default: `listen`).",
    )
    state: Path | None = Field(default=None, description="The state folder (default: $XDG_STATE_HOME/crashcart).")
    log_roots: Paths = Field(default=(), description="Folders that watched logs lie in; nothing else is read.")
    log_format: Literal["auto", "json", "human"] = Field(
        default="auto",
        description="Crashcart's own log: JSON lines or for people; auto: people on a terminal, else JSON.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least that is logged."
    )
    rules: Paths = Field(default=(), description="Rule folders beside the built-in one.")
    slack: SlackConfig = Field(
        default=SlackConfig(),
        description="Alerts to Slack.",
    )
    retention: RetentionConfig = Field(default=RetentionConfig(), description="What is kept, and for how long.")
    limits: LimitsConfig = Field(default=LimitsConfig(), description="Bounds of what is taken in.")
    heartbeat: HeartbeatConfig = Field(
        default=HeartbeatConfig(), description="A sign of life for a watch from outside."
    )
    servers: dict[str, ServerConfig] = Field(default={}, description="The servers, by name.")

    @property
    def supervised(self) -> dict[str, ServerConfig]:
        """The servers that Crashcart starts itself."""
        return {name: server for name, server in self.servers.items() if server.command is not None}

    @property
    def watched(self) -> dict[str, ServerConfig]:
        """The servers that others start."""
        return {name: server for name, server in self.servers.items() if server.command is None}

    @property
    def base_url(self) -> str:
        """What links to pages begin with."""
        return (self.public_url or self.listen.url).rstrip("/")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown."""
        held = (self.token, self.slack.webhook_url, self.heartbeat.url)
        return tuple(one.get_secret_value() for one in held if one is not None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes over the file, whose values are the initial ones."""
        return env_settings, init_settings


def model_at(loc: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model that the keys at this place of the file belong to."""
    parts: dict[Any, type[BaseModel]] = {
        "slack": SlackConfig,
        "retention": RetentionConfig,
        "limits": LimitsConfig,
        "heartbeat": HeartbeatConfig,
    }
    if not loc:
        return Config
    if loc[0] == "servers":
        if len(loc) == 3:
            inner: dict[Any, type[BaseModel]] = {"hooks": HooksConfig, "canary": CanaryConfig}
            return inner.get(loc[2])
        return ServerConfig if len(loc) == 2 else None
    return parts.get(loc[0]) if len(loc) == 1 else None

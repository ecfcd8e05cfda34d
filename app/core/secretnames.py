"""Tells from a name (flag, variable, key) whether its value is a secret."""

from __future__ import annotations

import re

_ALWAYS = frozenset({"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey"})
# `token` alone and `x-token` are secrets, unless the token is one of a text.
_TEXT_TOKENS = frozenset(
    {
        "pad", "eos", "bos", "unk", "mask", "sep", "cls", "image", "video", "audio", "stop", "start", "end", "begin",
        "special", "draft", "think", "first", "last", "next", "per", "max", "min", "new", "num", "prompt", "each",
        "decode", "prefill", "accepted", "extra", "hot", "single", "multi", "every", "target", "bonus", "time", "to",
        "input", "output", "one", "speculative", "logprob", "mean", "cached", "placeholder", "tool", "id", "implicit",
    }
)  # fmt: skip
# A key is a secret only when it says which lock it opens.
_KEYS = frozenset(
    {
        "api", "access", "secret", "private", "auth", "admin", "master", "signing", "encryption", "license", "account",
        "openai", "azure", "aws", "anthropic", "google", "gemini", "hf", "wandb", "service", "storage", "shared",
        "client", "webhook", "session", "deploy", "ssh",
    }
)  # fmt: skip


def is_secret_name(name: str) -> bool:
    """`--api-key`, `hf_token`, `AWS_SECRET_ACCESS_KEY`; not `--max-total-tokens`, `--tokenizer-path`, `eos_token`."""
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    parts = [word.lower() for word in words]
    if not parts or parts[-1] in ("file", "path", "dir", "name", "id", "length", "len", "type", "ttl", "url", "env"):
        return parts[-2:] == ["webhook", "url"]
    if parts[0] in ("allow", "enable", "disable", "no"):
        return False
    if not _ALWAYS.isdisjoint(parts):
        return True
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last == "token":
        return before not in _TEXT_TOKENS
    return last in ("key", "keys") and before in _KEYS


def is_secret_variable(name: str) -> bool:
    """The same for environment variables, where any `..._KEY`, `..._PASS` or `..._WEBHOOK` is taken for one."""
    parts = name.upper().split("_")
    return is_secret_name(name) or (len(parts) > 1 and parts[-1] in ("KEY", "KEYS", "PASS", "WEBHOOK", "AUTH", "PAT"))

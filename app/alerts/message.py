"""A message as Slack's Block Kit wants it. All text of logs is plain or in a code block, and neutral."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.alerts.neutral import fitted, neutral
from app.alerts.telling import APPLIED, NEEDS_HUMAN, OPENED, PROPOSED, RESOLVED
from app.core.wording import changes, shell

# Slack's limits: 150 for a header, 3000 for a section, 2000 for a field. Below them, for what it counts as two.
_HEADER, _TEXT, _CODE, _FIELD = 140, 1000, 1800, 500

_HEADLINES: Mapping[str, str] = {
    OPENED: "{server} is down: {title}",
    PROPOSED: "{server}: a fix waits for your decision",
    APPLIED: "{server} is being started again",
    NEEDS_HUMAN: "{server} needs a person",
    RESOLVED: "{server} is well again",
}


def message(incident_id: int, kind: str, facts: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The body of the post to the webhook."""
    headline = neutral(_headline(kind, facts), _HEADER)
    link = f"{base_url.rstrip('/')}/ui/incidents/{incident_id}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(headline)},
        {"type": "section", "fields": [_plain(neutral(field, _FIELD)) for field in _fields(incident_id, kind, facts)]},
    ]
    if facts.get("explanation"):
        blocks.append({"type": "section", "text": _plain(neutral(str(facts["explanation"]), _TEXT))})
    if line := facts.get("line"):
        blocks.append(_code(f"line {line['number']}: {line['text']}"))
    if facts.get("command"):
        blocks.append(_code(shell(facts["command"])))
    if facts.get("after"):
        blocks += _difference(facts)
    blocks.append(_button(link))
    if facts.get("last"):
        note = "No more messages of this kind about this incident: its page tells what happens next."
        blocks.append({"type": "context", "elements": [_plain(note)]})
    return {"text": headline, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _headline(kind: str, facts: Mapping[str, Any]) -> str:
    if kind == OPENED and facts.get("regressed"):
        return f"{facts['server']} is down again: {facts['title']}"
    return _HEADLINES.get(kind, "{server}: {title}").format(server=facts["server"], title=facts["title"])


def _fields(incident_id: int, kind: str, facts: Mapping[str, Any]) -> list[str]:
    fields = [f"Server: {facts['server']}", f"Incident: {incident_id}"]
    fields.append(f"Cause: {facts['title']} ({facts['category']})")
    fields.append(f"What happened: {facts['text']}")
    if kind == PROPOSED:
        fields.append(f"Fix {facts['fix_id']}: {facts['safety']}")
    if facts.get("by"):
        fields.append(f"Approved by: {facts['by']}")
    if facts.get("loses"):
        fields.append(f"Loses: {', '.join(facts['loses'])}")
    return fields


def _difference(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What changes in the command, and the command to paste."""
    changed = "\n".join(changes(facts["before"], facts["after"])) if facts.get("before") else ""
    return [_code(text) for text in (changed, shell(facts["after"])) if text]


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _code(text: str) -> dict[str, Any]:
    # `verbatim`: Slack looks for no links, channels or names in it.
    return {"type": "section", "text": {"type": "mrkdwn", "text": f"```{neutral(text, _CODE)}```", "verbatim": True}}


def _button(link: str) -> dict[str, Any]:
    if len(link) > 2900:  # a button with a longer address would make Slack refuse the whole message
        return {"type": "section", "text": _plain(fitted(link, _TEXT))}
    return {"type": "actions", "elements": [{"type": "button", "text": _plain("Open the incident"), "url": link}]}

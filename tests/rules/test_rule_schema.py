from __future__ import annotations

import json

from app.core.resources import rules_folder
from app.rules.schema import json_schema


def test_the_schema_for_editors_is_current() -> None:
    """After a change to the models: `crashcart rules lint --schema > rules/schema.json`."""
    assert (rules_folder() / "schema.json").read_text() == json_schema()


def test_the_schema_takes_what_authors_write() -> None:
    """A pattern alone for `line`, one fix or a list, a name or a list: the short forms are in the schema, too."""
    schema = json.loads(json_schema())

    assert {"type": "string"} in schema["$defs"]["Condition"]["properties"]["line"]["anyOf"]
    assert {"$ref": "#/$defs/FixSpec"} in schema["properties"]["fix"]["anyOf"]
    assert schema["additionalProperties"] is False

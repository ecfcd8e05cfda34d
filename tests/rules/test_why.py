from __future__ import annotations

from app.rules.conditions import Condition
from app.rules.scene import Scene
from app.rules.why import steps


def test_each_question_of_a_condition_is_answered_alone() -> None:
    condition = Condition.model_validate({"all": [{"exit": {"code": 1}}, {"phase": "starting"}]})

    assert [(step.depth, step.holds) for step in steps(condition, Scene())] == [(0, False), (1, False), (1, True)]

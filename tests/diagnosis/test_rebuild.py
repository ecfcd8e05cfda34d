from __future__ import annotations

import pytest

from app.core.model import Line
from app.diagnosis import rebuild


def rebuilt(pattern: str, body: str) -> tuple[str, ...] | None:
    found = rebuild.rebuild([(pattern, Line(7, body, body))])
    return found[0].words() if found else None


def test_sglangs_object_dump_becomes_the_command() -> None:
    body = (
        "server_args=ServerArgs(model_path='org/m', tokenizer_path='org/m', host='127.0.0.1', port=31601, tp_size=2, "
        "dtype='auto', context_length=4096, trust_remote_code=True, custom=<object at 0x1>, cuda_graph_bs=[1, 2])"
    )
    assert rebuilt(rebuild.SGLANG_OBJECT, body) == (
        "python3", "-m", "sglang.launch_server", "--model-path", "org/m", "--port", "31601", "--tp-size", "2",
        "--context-length", "4096", "--trust-remote-code",
    )  # fmt: skip


def test_sglangs_dict_dump_becomes_the_command() -> None:
    body = "server_args={'model_path': '/m', 'port': 30000, 'speculative_algorithm': 'EAGLE', 'seed': 4}"
    assert rebuilt(rebuild.SGLANG_DICT, body) == (
        "python3", "-m", "sglang.launch_server", "--model-path", "/m", "--speculative-algorithm", "EAGLE",
    )  # fmt: skip


def test_vllms_changed_arguments_become_the_command() -> None:
    body = (
        "non-default args: {'model_tag': 'org/m', 'model': 'org/m', 'max_model_len': 256, 'enforce_eager': True, "
        "'enable_prefix_caching': False, 'speculative_config': {'method': 'ngram'}, 'served_model_name': ['a', 'b']}"
    )
    assert rebuilt(rebuild.VLLM_CHANGED, body) == (
        "vllm", "serve", "org/m", "--max-model-len", "256", "--enforce-eager", "--no-enable-prefix-caching",
        "--speculative-config", '{"method": "ngram"}', "--served-model-name", "a", "b",
    )  # fmt: skip


def test_of_vllms_old_dump_only_what_was_changed_is_taken() -> None:
    body = "args: Namespace(host=None, port=9000, model='org/m', dtype='auto', dispatch=<function serve at 0x7f>)"
    assert rebuilt(rebuild.VLLM_NAMESPACE, body) == ("vllm", "serve", "org/m", "--port", "9000")


def test_what_a_shell_echoed_is_taken_when_it_starts_an_engine() -> None:
    assert rebuilt(rebuild.SHELL_ECHO, "+ exec vllm serve m --port 1") == ("vllm", "serve", "m", "--port", "1")
    assert rebuilt(rebuild.SHELL_ECHO, "+ ls -l /models") is None


def test_a_dump_that_was_cut_off_gives_what_is_whole() -> None:
    body = "server_args=ServerArgs(model_path='/m', tp_size=4, context_len"
    assert rebuilt(rebuild.SGLANG_OBJECT, body) == (
        "python3", "-m", "sglang.launch_server", "--model-path", "/m", "--tp-size", "4",
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "server_args=ServerArgs(" + "(" * 100_000,
        "server_args=ServerArgs(model_path=__import__('os').system('false'))",
        "server_args=ServerArgs(model_path='never closed",
    ],
)
def test_a_hostile_dump_gives_nothing(body: str) -> None:
    assert rebuilt(rebuild.SGLANG_OBJECT, body) is None


def test_the_last_dump_wins() -> None:
    one, two = "server_args=ServerArgs(model_path='/a')", "server_args=ServerArgs(model_path='/b')"
    found = rebuild.rebuild([(rebuild.SGLANG_OBJECT, Line(9, two, two)), (rebuild.SGLANG_OBJECT, Line(3, one, one))])
    assert found is not None
    assert found[0].model == "/b"


def test_a_dump_tells_the_names_of_all_its_settings() -> None:
    body = "server_args={'model_path': '/m', 'custom': <object at 0x1>, 'sizes': [1, 2], 'port': 3}"
    named = rebuild.setting_names([(rebuild.SGLANG_DICT, Line(7, body, body))])
    assert named == {"model_path", "custom", "sizes", "port"}

"""Secrets and prompts never come through; everything else does, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.redact import redact_env, redact_text, redact_words
from app.core.secretnames import is_secret_name, is_secret_variable

HF = "hf_" + "aB3" * 8
SK = "sk-proj-" + "a1B2" * 6
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN"
SLACK = "https://hooks.slack.com/services/" + "T000/B000/XXXX"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    ["--api-key", "--hf-token", "--ssl-keyfile-password", "api_key", "--admin-api-key", "apiKey", "--token", "hf_token",
     "AWS_SECRET_ACCESS_KEY", "SLACK_WEBHOOK_URL", "client_secret"],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["--max-total-tokens", "--tokenizer-path", "--ssl-keyfile", "eos_token", "pad_token_id", "TOKENIZERS_PARALLELISM",
     "--api-key-file", "--sort-key", "num_speculative_tokens", "--allow-credentials", "token_usage", "image_token", ""],
)  # fmt: skip
def test_a_name_that_only_sounds_so_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_variables_are_judged_more_strictly() -> None:
    assert is_secret_variable("DEPLOY_KEY")
    assert is_secret_variable("DB_PASS")
    assert not is_secret_variable("TOKENIZERS_PARALLELISM")
    assert not is_secret_variable("PWD")


# -- words and environments


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--api-key", "abc", "--port", "1"], ("--api-key", "[redacted]", "--port", "1")),
        (["--api-key=abc"], ("--api-key=[redacted]",)),
        (["--api_key", "abc"], ("--api_key", "[redacted]")),
        (["--api-key", "a", "b", "--x"], ("--api-key", "[redacted]", "[redacted]", "--x")),
        (["--ssl-keyfile-password", "p w"], ("--ssl-keyfile-password", "[redacted]")),
        (["HF_TOKEN=abc", "vllm"], ("HF_TOKEN=[redacted]", "vllm")),
        (["docker", "run", "--env=HF_TOKEN=abc", "image"], ("docker", "run", "--env=HF_TOKEN=[redacted]", "image")),
        (["--hf-overrides", '{"api_key": "abc"}'], ("--hf-overrides", '{"api_key": "[redacted]"}')),
        (["--model", f"https://u:p@host/{HF}"], ("--model", "https://[redacted]@host/[redacted]")),
        (["--api-key", "--port", "1"], ("--api-key", "--port", "1")),
    ],
)
def test_secrets_of_a_command_are_hidden(words: list[str], shown: tuple[str, ...]) -> None:
    assert redact_words(words) == shown


def test_an_ordinary_command_is_shown_as_it_is() -> None:
    words = ("TOKENIZERS_PARALLELISM=false", "python3", "-m", "sglang.launch_server", "--tokenizer-path", "/m",
             "--max-total-tokens", "4096", "--ssl-keyfile", "/etc/key.pem", "--hf-overrides", '{"a": 1}')  # fmt: skip

    assert redact_words(words) == words


def test_secrets_of_an_environment_are_hidden() -> None:
    env = {"HF_TOKEN": "abc", "PATH": "/bin", "TOKENIZERS_PARALLELISM": "false", "URL": "http://u:p@h", "X_KEY": ""}

    assert redact_env(env) == {
        "HF_TOKEN": "[redacted]",
        "PATH": "/bin",
        "TOKENIZERS_PARALLELISM": "false",
        "URL": "http://[redacted]@h",
        "X_KEY": "",
    }


# -- text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"token {HF} used", "token [redacted] used"),
        (f"key={SK},", "key=[redacted],"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("Authorization: Bearer abc.def-1234567", "Authorization: Bearer [redacted]"),
        ("-H 'authorization: Basic dXNlcjpwYXNz'", "-H 'authorization: Basic [redacted]'"),
        (f"jwt {JWT}.", "jwt [redacted]."),
        (f"posting to {SLACK} failed", "posting to https://hooks.slack.com/services/[redacted] failed"),
        ("GET https://user:secret@host/x", "GET https://[redacted]@host/x"),
        ("GET /v1?token=abc&a=1 HTTP", "GET /v1?token=[redacted]&a=1 HTTP"),
        ("GET /v1?a=1&api_key=abc", "GET /v1?a=1&api_key=[redacted]"),
        (f"before\n{PEM}\nafter",
         "before\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nafter"),
        ("ServerArgs(port=1, api_key='x y', hf_token=None)", "ServerArgs(port=1, api_key='[redacted]', hf_token=None)"),
        ("server_args={'api_key': 'x', 'port': 1}", "server_args={'api_key': '[redacted]', 'port': 1}"),
        ('{"hf_token": "abc", "n": 2}', '{"hf_token": "[redacted]", "n": 2}'),
        ("export HF_TOKEN=abc", "export HF_TOKEN=[redacted]"),
        ("+ vllm serve m --api-key abc --port 1", "+ vllm serve m --api-key [redacted] --port 1"),
        ("+ vllm serve m --api-key=abc", "+ vllm serve m --api-key=[redacted]"),
        ("argv: ['--api-key', 'abc', '--port']", "argv: ['--api-key', '[redacted]', '--port']"),
        ("non-default args: {'api_key': ['a', 'b'], 'port': 1}",
         "non-default args: {'api_key': [redacted], 'port': 1}"),
    ],
)  # fmt: skip
def test_a_secret_in_text_is_hidden_and_only_it(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("reqs=[Req(rid=1, input_ids=[5, 12, 19], output_ids=[], x=1)]",
         "reqs=[Req(rid=1, input_ids=[prompt removed], output_ids=[], x=1)]"),
        ("Req(origin_input_text='it\\'s a secret, really', fill_ids=[1, 2])",
         "Req(origin_input_text=[prompt removed], fill_ids=[prompt removed])"),
        ("dump origin_input_text='cut off in the middle\nnext line",
         "dump origin_input_text=[prompt removed]\nnext line"),
        ("Receive: obj=GenerateReqInput(rid='a', text='hello', sampling_params={})",
         "Receive: obj=GenerateReqInput([prompt removed])"),
        ("Finish: obj=GenerateReqInput(text='x'), out={'text': 'y'}", "Finish: obj=GenerateReqInput([prompt removed])"),
        ("Receive OpenAI: obj=ChatCompletionRequest(messages=[{'a': 'b'}])",
         "Receive OpenAI: obj=ChatCompletionRequest([prompt removed])"),
        ("Received request cmpl-1: prompt: 'Say \"hi\"', params: SamplingParams(n=1), prompt_token_ids: [1, 2, 3]",
         "Received request cmpl-1: prompt: [prompt removed], params: SamplingParams(n=1), "
         "prompt_token_ids: [prompt removed]"),
        ("Request chat-1 details: prompt: 'x', prompt_embeds shape: None.",
         "Request chat-1 details: prompt: [prompt removed], prompt_embeds shape: None."),
        ('body {"prompt": "tell me", "max_tokens": 5}', 'body {"prompt": [prompt removed], "max_tokens": 5}'),
        ("body {'messages': [{'role': 'user', 'content': 'x'}]}", "body {'messages': [prompt removed]"),
    ],
)  # fmt: skip
def test_a_prompt_that_a_server_dumps_is_cut_out(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_a_dump_of_tens_of_kilobytes_becomes_one_word() -> None:
    dump = f"scheduler.cur_batch.reqs=[Req(rid=1, input_ids={list(range(20_000))}, output_ids=[7])]"

    assert redact_text(dump) == (
        "scheduler.cur_batch.reqs=[Req(rid=1, input_ids=[prompt removed], output_ids=[prompt removed])]"
    )


ORDINARY = """\
[2026-01-12 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 10, #cached-token: 0, token usage: 0.00
[2026-01-12 10:00:00] server_args=ServerArgs(model_path='/m', tokenizer_path='/m', api_key=None, hf_token=None)
max_total_num_tokens=16000, chunked_prefill_size=8192, eos_token='</s>', pad_token_id=0, num_tokens=[1, 2, 3]
usage: launch_server.py [-h] [--api-key API_KEY] [--hf-token HF_TOKEN] [--allow-credentials | --no-allow-credentials]
  --api-key API_KEY     Set the API key of the server. It is also used in the OpenAI API compatible server.
W srv  llama_server: security: no API key is set and CORS allows all origins (see https://github.com/x/pull/25655)
ValueError: The --hf-token flag is required; set HF_TOKEN or use --api-key to log in.
Please pass `token=<your_token>` or log in with `hf auth login`.
KeyError: 'lm_head.weight'
{'key': 'value', 'cache_key': 'abc', 'sort-key': 1}
INFO:     127.0.0.1:53630 - "POST /generate HTTP/1.1" 200 OK
huggingface_hub.errors.GatedRepoError: 401 Client Error for url: https://huggingface.co/x/resolve/main/config.json
  File "/usr/lib/python3.11/secrets.py", line 12, in token_hex
launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16
(Worker_TP0 pid=402) INFO 11-30 20:54:23 [core.py:718] Bearer authentication is enabled for the API
git+ssh://git@github.com/org/repo task-runner-with-a-long-name disk-usage-of-the-cache-1234567890
Received sigquit from a child process. It usually means the child failed.
"""


@pytest.mark.parametrize("line", ORDINARY.splitlines())
def test_an_ordinary_line_stays_as_it_is(line: str) -> None:
    assert redact_text(line) == line


# -- properties

SECRETS = [HF, SK, JWT, SLACK, "AKIAIOSFODNN7EXAMPLE", "--api-key s3cr3t", "api_key='s3cr3t'", "HF_TOKEN=s3cr3t",
           "https://u:s3cr3t@h/", "?token=s3cr3t", "Bearer s3cr3t-s3cr3t", "'api_key': \"s3cr3t\"", PEM,
           "input_ids=[1, 2]", "origin_input_text='s3cr3t'", "prompt: 's3cr3t'"]  # fmt: skip
PIECES = st.lists(
    st.one_of(st.sampled_from(SECRETS), st.sampled_from(list("'\"[]()=:,& \n|-@?\\")), st.text(max_size=5)), max_size=10
)


@settings(deadline=None)
@given(PIECES)
def test_redacting_twice_changes_nothing_more(pieces: list[str]) -> None:
    once = redact_text("".join(pieces))

    assert redact_text(once) == once


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(["--api-key", "--hf-token=x", "HF_TOKEN=x", "--port", "1"]), st.text(max_size=5))
    )
)
def test_redacting_words_twice_changes_nothing_more(words: list[str]) -> None:
    once = redact_words(words)

    assert redact_words(once) == once
    assert len(once) == len(words)


@settings(deadline=None)
@given(
    st.text("abcXYZ019", min_size=8, max_size=20).filter(lambda text: any(letter.isdigit() for letter in text)),
    st.sampled_from(
        ["--api-key {}", "--api-key={}", "api_key='{}'", '"hf_token": "{}"', "HF_TOKEN={}", "?token={}", "http://u:{}@h"]
    ),
    st.sampled_from(["", "a line ", "[2026-01-12 10:00:00 TP0] "]),
)  # fmt: skip
def test_a_secret_never_comes_through(secret: str, shape: str, before: str) -> None:
    text = before + shape.format("q9" + secret + "q9") + " and more"

    assert "q9" not in redact_text(text)


@settings(deadline=None)
@given(st.text("abcdefgh 0123456789.,:()/_\n", max_size=200))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text

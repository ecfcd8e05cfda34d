"""Every row of the HTTP contract and every error answer, over real sockets."""

from __future__ import annotations

import gzip
import io
import json
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.core.model import Fix, Progress
from app.core.vocabulary import Engine, Mode, Phase, Safety, ServerState
from app.store.store import Store
from app.store.wishes import ServerWish
from tests.conftest import Dying
from tests.web.serving import serving

LOG = (
    "usage: launch_server.py [-h] --model-path MODEL_PATH\n"
    "launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16\n"
)
COMMAND = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--num-speculative-tokens", "16"]
TOKEN = "a-token-for-tests"


@pytest.fixture
def api(store: Store) -> Iterator[httpx.Client]:
    with serving(store) as url, httpx.Client(base_url=url, timeout=20) as client:
        yield client


@pytest.fixture
def proposed(store: Store, dies: Dying) -> tuple[int, int]:
    """An incident with a proposed fix: both ids."""
    launch, incident = dies()
    fix = Fix(set={"--speculative-num-steps": "3"})
    return incident, store.propose(incident, fix, ("serve", "--x"), Safety.SAFE, ["port free"], launch_id=launch)


def ingest(api: httpx.Client, **body: object) -> httpx.Response:
    return api.post("/incidents/ingest", json={"server": "kimi", **body})


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem of an answer."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    return problem


# -- ingest


def test_a_failure_opens_an_incident_with_its_diagnosis(api: httpx.Client) -> None:
    answer = ingest(api, text=LOG, command=COMMAND, exit_code=2)
    assert answer.status_code == 201
    assert answer.json()["diagnosis"]["causes"][0]["category"] == "unknown-argument"
    assert answer.json()["incident"]["launches"][0]["command"] == COMMAND


def test_a_second_failure_joins_the_open_episode(api: httpx.Client) -> None:
    first = ingest(api, text=LOG).json()["incident"]["id"]
    answer = ingest(api, text="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", exit_code=1)
    assert (answer.status_code, answer.json()["incident"]["id"]) == (200, first)


def test_the_same_failure_elsewhere_joins_the_incident_of_just_now(api: httpx.Client) -> None:
    first = ingest(api, text=LOG).json()["incident"]["id"]
    answer = ingest(api, server="kimi-2", text=LOG)
    assert (answer.status_code, answer.json()["incident"]["id"]) == (200, first)


def test_reporting_does_not_change_what_is_being_done(api: httpx.Client, proposed: tuple[int, int]) -> None:
    incident = ingest(api, text=LOG).json()["incident"]
    assert (incident["status"], incident["proposal"]["fix_id"]) == ("proposed", proposed[1])


def test_healthy_text_has_no_incident(api: httpx.Client) -> None:
    answer = ingest(api, text="INFO:     Application startup complete.\nThe server is fired up and ready to roll!\n")
    assert (answer.status_code, answer.json()["incident"]) == (200, None)


def test_lines_env_and_a_command_as_one_string_are_understood(api: httpx.Client) -> None:
    answer = ingest(api, lines=LOG.splitlines(), command="python3 -m sglang.launch_server --x", env={"A": "b"})
    assert answer.json()["incident"]["launches"][0]["command"] == [
        "A=b",
        "python3",
        "-m",
        "sglang.launch_server",
        "--x",
    ]


def test_who_and_when_are_kept(api: httpx.Client) -> None:
    incident = ingest(api, text=LOG, reported_by="watchdog", occurred_at="2026-01-02T03:04:05Z").json()["incident"]
    assert incident["launches"][0]["ended_at"] == "2026-01-02T03:04:05.000Z"
    assert incident["timeline"][0]["text"].startswith("reported by watchdog: ")


def test_plain_text_names_its_server_in_the_address(api: httpx.Client) -> None:
    answer = api.post("/incidents/ingest?server=kimi", content=LOG, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 201


def test_gzip_is_unpacked(api: httpx.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    body = gzip.compress(json.dumps({"server": "kimi", "text": LOG}).encode())
    assert api.post("/incidents/ingest", content=body, headers=headers).status_code == 201


def test_a_bare_word_makes_crashcart_look_itself(api: httpx.Client, dies: Dying) -> None:
    _, incident = dies()
    answer = ingest(api, text="crashed")
    assert (answer.status_code, answer.json()["incident"]["id"]) == (200, incident)
    assert answer.json()["diagnosis"]["causes"][0]["rule"] == "sglang/steps-missing"


def test_a_bare_word_about_an_unknown_server_is_404(api: httpx.Client) -> None:
    refused(ingest(api, server="nobody", text="crashed"), 404)


def test_the_same_key_and_body_get_the_same_answer(api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    send = [api.post("/incidents/ingest", json={"server": "a", "text": LOG}, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in send] == [201, 201]
    assert len(send[1].json()["incident"]["launches"]) == 1
    assert len(api.get("/incidents/1").json()["launches"]) == 1


def test_a_key_with_another_body_is_422(api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    api.post("/incidents/ingest", json={"server": "a", "text": LOG}, headers=headers)
    answer = api.post("/incidents/ingest", json={"server": "b", "text": LOG}, headers=headers)
    assert refused(answer, 422)["errors"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "a", "lines": ["b"]}, "body"),
        ({"text": " "}, "body"),
        ({}, "body"),
        ({"text": "a", "server": "a/b"}, "server"),
        ({"text": "a", "exit_code": "x"}, "exit_code"),
        ({"text": "a", "command": 5}, "command"),
        ({"text": "a", "occurred_at": "soon"}, "occurred_at"),
        ({"text": "a", "txet": "b"}, "txet"),
    ],
)
def test_what_is_wrong_is_named(api: httpx.Client, body: dict[str, object], field: str) -> None:
    assert refused(ingest(api, **body), 422)["errors"][0]["field"] == field


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000], ids=["half", "no text", "deep"])
def test_no_json_is_422(api: httpx.Client, body: bytes) -> None:
    refused(api.post("/incidents/ingest", content=body, headers={"Content-Type": "application/json"}), 422)


def test_plain_text_without_server_is_422(api: httpx.Client) -> None:
    answer = api.post("/incidents/ingest", content=LOG, headers={"Content-Type": "text/plain"})
    assert refused(answer, 422)["errors"][0]["field"] == "server"


def test_a_body_about_another_server_than_the_query_is_422(api: httpx.Client) -> None:
    answer = api.post("/incidents/ingest?server=a", json={"server": "b", "text": "crashed"})
    assert refused(answer, 422)["errors"][0]["field"] == "server"


def test_packed_text_without_its_header_is_415_and_names_the_header(api: httpx.Client) -> None:
    headers = {"Content-Type": "text/plain"}
    answer = api.post("/incidents/ingest?server=a", content=gzip.compress(b"x"), headers=headers)
    assert "Content-Encoding: gzip" in refused(answer, 415)["mend"]


def test_other_types_and_codings_are_415(api: httpx.Client) -> None:
    refused(api.post("/incidents/ingest", content=b"a", headers={"Content-Type": "image/png"}), 415)
    headers = {"Content-Type": "text/plain", "Content-Encoding": "br"}
    refused(api.post("/incidents/ingest?server=a", content=b"a", headers=headers), 415)


def test_twenty_megabytes_are_413(api: httpx.Client) -> None:
    refused(
        api.post("/incidents/ingest?server=a", content=b"x" * (20 << 20), headers={"Content-Type": "text/plain"}), 413
    )


def test_large_bodies_are_taken_below_the_limit_and_only_where_logs_are_sent(api: httpx.Client) -> None:
    assert ingest(api, text="loading\n" * 500_000 + LOG).status_code == 201
    refused(api.patch("/incidents/1", json={"note": "x" * 100_000}), 413)


def test_a_gzip_bomb_is_413(api: httpx.Client) -> None:
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    refused(api.post("/incidents/ingest?server=a", content=gzip.compress(b"\0" * (200 << 20), 9), headers=headers), 413)


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"cut off" * 99, mtime=0)[:-9]], ids=["none", "cut off"])
def test_broken_gzip_is_400(api: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    refused(api.post("/incidents/ingest?server=a", content=body, headers=headers), 400)


def test_secrets_are_not_told(api: httpx.Client) -> None:
    answer = ingest(api, text=LOG, command=[*COMMAND, "--api-key", "very-secret"])
    assert answer.status_code == 201
    assert "very-secret" not in answer.text


# -- who may


def test_other_sites_may_not_post(api: httpx.Client) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused(api.post("/incidents/ingest", json={"server": "a", "text": LOG}, headers=headers), 403)


def test_our_own_pages_may_post(api: httpx.Client) -> None:
    headers = {"Origin": str(api.base_url).rstrip("/")}
    assert api.post("/incidents/ingest", json={"server": "a", "text": LOG}, headers=headers).status_code == 201


def test_a_foreign_host_is_400(api: httpx.Client) -> None:
    refused(api.get("/incidents", headers={"Host": "rebound.example"}), 400)


def test_an_allowed_host_is_served(store: Store) -> None:
    with serving(store, allowed_hosts=["box.example"]) as url:
        assert httpx.get(f"{url}/incidents", headers={"Host": "box.example:8321"}).status_code == 200


def test_the_token_is_asked_for_and_compared(store: Store) -> None:
    with serving(store, token=TOKEN) as url:
        answer = httpx.get(f"{url}/incidents")
        refused(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        refused(httpx.get(f"{url}/incidents", headers={"Authorization": "Bearer wrong"}), 401)
        refused(httpx.post(f"{url}/incidents/ingest", json={"server": "a", "text": LOG}), 401)
        assert httpx.get(f"{url}/incidents", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert httpx.get(f"{url}/healthz").status_code == 200


# -- incidents


def test_incidents_come_in_pages_newest_first(api: httpx.Client, dies: Dying) -> None:
    made = [dies(server=f"s{number}", fingerprint=f"f{number}")[1] for number in range(3)]
    first = api.get("/incidents", params={"limit": 2}).json()
    second = api.get("/incidents", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [one["id"] for one in first["items"] + second["items"]] == made[::-1]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"server": "kimi"}, 1),
        ({"server": "other"}, 0),
        ({"status": "open"}, 1),
        ({"status": "resolved"}, 0),
        ({"category": "missing-argument"}, 1),
        ({"category": "hang"}, 0),
        ({"q": "eagle NEEDS"}, 1),
        ({"q": "100%"}, 0),
    ],
)
def test_incidents_are_filtered(api: httpx.Client, dies: Dying, query: dict[str, str], found: int) -> None:
    dies()
    assert len(api.get("/incidents", params=query).json()["items"]) == found


def test_an_incident_tells_its_story(api: httpx.Client, proposed: tuple[int, int]) -> None:
    incident = api.get(f"/incidents/{proposed[0]}").json()
    assert incident["proposal"]["guards"] == ["port free"]
    assert incident["launches"][0]["diagnosis"]["causes"][0]["rule"] == "sglang/steps-missing"
    assert [line["kind"] for line in incident["timeline"]] == ["died", "proposed"]


@pytest.mark.parametrize("query", ["status=odd", "limit=0", "limit=x", "cursor=x", "category=none"])
def test_a_wrong_query_is_422(api: httpx.Client, query: str) -> None:
    assert refused(api.get(f"/incidents?{query}"), 422)["errors"][0]["field"] == query.partition("=")[0]


def test_an_unknown_incident_is_404(api: httpx.Client) -> None:
    refused(api.get("/incidents/99"), 404)
    refused(api.patch("/incidents/99", json={"note": "x"}), 404)
    refused(api.post("/incidents/99/fix", json={"decision": "approve", "fix_id": 1}), 404)


def test_an_incident_is_acknowledged_muted_noted_and_resolved(api: httpx.Client, dies: Dying) -> None:
    _, incident = dies()
    body = {"acknowledged": True, "muted_until": "2099-01-01T00:00:00Z", "note": "known", "status": "resolved"}
    answer = api.patch(f"/incidents/{incident}", json=body).json()
    assert (answer["acknowledged"], answer["muted_until"]) == (True, "2099-01-01T00:00:00.000Z")
    assert (answer["status"], answer["timeline"][-2]["text"]) == ("resolved", "api: known")
    assert api.patch(f"/incidents/{incident}", json={"muted_until": None}).json()["muted_until"] is None


def test_an_incident_can_only_be_resolved_by_hand(api: httpx.Client, dies: Dying) -> None:
    _, incident = dies()
    assert refused(api.patch(f"/incidents/{incident}", json={"status": "open"}), 422)["errors"][0]["field"] == "status"


@pytest.mark.parametrize(("decision", "kind"), [("approve", "approved"), ("reject", "rejected")])
def test_what_is_proposed_is_decided_on_once(
    api: httpx.Client, store: Store, proposed: tuple[int, int], decision: str, kind: str
) -> None:
    body = {"decision": decision, "fix_id": proposed[1]}
    assert api.post(f"/incidents/{proposed[0]}/fix", json=body).status_code == 200
    assert store.proposal(proposed[1]).status == kind
    refused(api.post(f"/incidents/{proposed[0]}/fix", json=body), 409)


def test_what_was_not_proposed_is_409(api: httpx.Client, proposed: tuple[int, int]) -> None:
    refused(api.post(f"/incidents/{proposed[0]}/fix", json={"decision": "approve", "fix_id": 77}), 409)


# -- servers


def test_servers_are_shown(api: httpx.Client, dies: Dying) -> None:
    dies()
    assert [server["state"] for server in api.get("/servers").json()] == ["exited"]
    assert api.get("/servers/kimi").json()["command"] == ["serve"]
    refused(api.get("/servers/nobody"), 404)


def test_waiting_ends_when_the_server_is_ready(api: httpx.Client, store: Store) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.PROPOSE, command=("serve",)):
        store.begin_launch("kimi", ("serve",), Engine.SGLANG)

        def get_ready() -> None:
            time.sleep(0.3)
            store.set_state("kimi", ServerState.READY, "health answers")

        thread = threading.Thread(target=get_ready)
        thread.start()
        answer = api.get("/servers/kimi/wait", params={"until": "ready", "timeout": 10}).json()
        thread.join()
    assert (answer["reached"], answer["state"], answer["diagnosis"]) == (True, "ready", None)


def test_waiting_ends_at_its_time(api: httpx.Client, store: Store) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.PROPOSE, command=("serve",)):
        store.begin_launch("kimi", ("serve",), Engine.SGLANG)
        answer = api.get("/servers/kimi/wait", params={"timeout": 0.2}).json()
    assert (answer["reached"], answer["state"]) == (False, "starting")


def test_waiting_for_a_dead_server_tells_why_it_died(api: httpx.Client, dies: Dying) -> None:
    dies()
    answer = api.get("/servers/kimi/wait", params={"timeout": 10}).json()
    assert (answer["reached"], answer["diagnosis"]["causes"][0]["rule"]) == (False, "sglang/steps-missing")


def test_waiting_for_nobody_is_404(api: httpx.Client) -> None:
    refused(api.get("/servers/nobody/wait", params={"timeout": 0}), 404)


@pytest.mark.parametrize("wish", ["start", "stop", "restart"])
def test_a_wish_is_written_for_who_supervises(api: httpx.Client, store: Store, wish: str) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.PROPOSE, command=("serve",)):
        assert api.post(f"/servers/kimi/{wish}").status_code == 202
        assert store.last_wish("kimi") is ServerWish(wish)


def test_a_wish_that_nobody_would_carry_out_is_409(api: httpx.Client, dies: Dying) -> None:
    dies()
    refused(api.post("/servers/kimi/restart"), 409)
    refused(api.post("/servers/nobody/restart"), 404)


# -- the rest


class Stream:
    """What a client of /stream gets."""

    def __init__(self, url: str, **headers: str) -> None:
        self._client = httpx.Client(timeout=10)
        self._context = self._client.stream("GET", f"{url}/stream", headers=headers)
        self._lines = self._context.__enter__().iter_lines()

    def __enter__(self) -> Stream:
        next(self._lines)  # "retry:", so it is under way
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)
        self._client.close()

    def event(self) -> dict[str, str]:
        """The next one."""
        event: dict[str, str] = {}
        for line in self._lines:
            if not line and "event" in event:
                return event
            name, _, value = line.partition(": ")
            event[name] = value
        return event


def test_the_stream_tells_transitions_as_they_happen(api: httpx.Client, dies: Dying) -> None:
    with Stream(str(api.base_url)) as stream:
        dies()
        events = (stream.event() for _ in range(9))
        kinds = (json.loads(event["data"])["kind"] for event in events if event["event"] == "transition")
        assert "died" in kinds


def test_the_stream_resumes_after_the_last_event_seen(api: httpx.Client, store: Store, dies: Dying) -> None:
    dies()
    last = store.newest_transition()
    with Stream(str(api.base_url), **{"Last-Event-ID": str(last - 1)}) as stream:
        assert stream.event()["id"] == str(last)


def test_the_stream_tells_progress(api: httpx.Client, store: Store) -> None:
    store.begin_launch("kimi", ("serve",), Engine.SGLANG)
    with Stream(str(api.base_url)) as stream:
        time.sleep(0.5)
        store.set_state("kimi", ServerState.STARTING, "log", Progress(Phase.LOADING, 67.0, "67%"))
        event = stream.event()
    assert (event["event"], json.loads(event["data"])["progress"]["percent"]) == ("progress", 67.0)


def test_rules_are_listed(api: httpx.Client) -> None:
    assert {"id", "role", "title"} <= api.get("/rules").json()[0].keys()


def test_the_service_tells_of_itself(api: httpx.Client) -> None:
    assert api.get("/healthz").json()["status"] == "ok"
    assert api.get("/readyz").status_code == 200
    assert "crashcart_build_info" in api.get("/metrics").text


def test_pages_are_served_and_the_root_leads_there(api: httpx.Client) -> None:
    assert api.get("/").headers["location"].startswith("/ui")


def test_an_unknown_path_and_method_are_problems(api: httpx.Client) -> None:
    refused(api.get("/nothing"), 404)
    answer = api.delete("/incidents/1")
    refused(answer, 405)
    assert answer.headers["allow"] == "GET, PATCH"


def test_every_operation_shows_an_example_of_its_answer(api: httpx.Client) -> None:
    answers = [
        (method, path, operation["responses"][status])
        for path, methods in api.get("/openapi.json").json()["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
        if status.startswith("2") and "application/gzip" not in operation["responses"][status]["content"]
    ]
    bare = [(m, p) for m, p, answer in answers if not any("example" in one for one in answer["content"].values())]
    assert len(answers) > 10
    assert bare == []


def test_all_evidence_of_an_incident_comes_as_one_archive(
    api: httpx.Client, store: Store, proposed: tuple[int, int]
) -> None:
    number = proposed[0]
    folder = store.evidence_folder(number) / "launch-1"
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(b"x" * 9_000_000)
    answer = api.get(f"/incidents/{number}/evidence")

    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        found = {entry.name: entry.size for entry in archive}
    assert found.pop(f"incident-{number}/incident.json") > 100
    assert found == {f"incident-{number}/launch-1/log": 9_000_000}
    assert answer.headers["content-disposition"] == f'attachment; filename="crashcart-incident-{number}.tar.gz"'


def test_evidence_of_no_incident_is_refused(api: httpx.Client) -> None:
    refused(api.get("/incidents/99/evidence"), 404)


def test_a_long_poll_holds_up_nobody(api: httpx.Client, store: Store) -> None:
    """Sixty of them are more than there are threads."""
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.PROPOSE, command=("serve",)):
        store.begin_launch("kimi", ("serve",), Engine.SGLANG)
        address = (api.base_url.host, api.base_url.port or 80)
        waiting = [socket.create_connection(address) for _ in range(60)]
        for one in waiting:
            one.sendall(b"GET /servers/kimi/wait?timeout=30 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        began = time.monotonic()
        assert api.get("/healthz").status_code == 200
        spent = time.monotonic() - began
        for one in waiting:
            one.close()
    assert spent < 5

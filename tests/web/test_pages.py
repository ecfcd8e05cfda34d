"""The dashboard over a real socket, as a browser without JavaScript sees it."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from app.core.model import Cause, Diagnosis, Exit, Fix, Line
from app.core.vocabulary import Action, Category, Confidence, Engine, IncidentStatus, Mode, Outcome, Phase, Safety
from app.rules.load import RuleSet, load_rules
from app.store.store import Store
from app.store.words import AttemptKind, Decision, Wish
from app.web.pages import add_pages

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"' \u202e {{ 7*7 }}"
COMMAND = ("python3", "-m", "sglang.launch_server", "--num-speculative-tokens", "16")
FIXED = ("python3", "-m", "sglang.launch_server", "--speculative-num-draft-tokens", "16")


@contextmanager
def serving(store: Store, token: str | None = None, rules: RuleSet | None = None) -> Iterator[str]:
    app = FastAPI()
    add_pages(app, store, token=token, rules=lambda: rules or RuleSet())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def browser(store: Store) -> Iterator[httpx.Client]:
    with serving(store) as url, httpx.Client(base_url=url, follow_redirects=True) as client:
        yield client


def died(
    store: Store, server: str = "kimi", line: str = "error: unrecognized arguments", title: str = "No such flag"
) -> int:
    cause = Cause(
        "any/unknown-argument",
        Category.UNKNOWN_ARGUMENT,
        title,
        f"It said {line}",
        Confidence.HIGH,
        line=Line(3, line, line),
        action=Action.CHANGE,
        fix=Fix(rename={"--num-speculative-tokens": "--speculative-num-draft-tokens"}),
        safety=Safety.SAFE,
        command=FIXED,
    )
    diagnosis = Diagnosis(
        Outcome.FAILED, Phase.LOADING, engine=Engine.SGLANG, causes=(cause,), fingerprint=server + title
    )
    with store.lock_server(server, engine=Engine.SGLANG, mode=Mode.PROPOSE, command=COMMAND):
        launch = store.begin_launch(server, COMMAND, Engine.SGLANG, Mode.PROPOSE)
        incident = store.record_death(launch, Exit(code=2), Phase.LOADING, diagnosis, decision=Decision.NONE)
    folder = store.evidence_folder(incident) / f"launch-{launch}"
    folder.mkdir(parents=True)
    (folder / "log").write_text(
        f"first line\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123\n{line}\nafter it\n", encoding="utf-8"
    )
    return incident


def proposed(store: Store, server: str = "kimi") -> tuple[int, int]:
    incident = died(store, server)
    fix = store.propose(
        incident, Fix(rename={"--a": "--b"}), FIXED, Safety.SAFE, ("old-group-gone",), title="Rename the flag"
    )
    return incident, fix


def mark_of(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found
    return found[1]


def test_a_server_that_this_service_acts_for_can_be_restarted_from_its_card(
    store: Store, browser: httpx.Client
) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.AUTO, command=COMMAND):
        page = browser.get("/ui/servers")
        assert '<button name="wish" value="start">Start</button>' in page.text
        answer = browser.post("/ui/servers/kimi/wish", data={"csrf": mark_of(page), "wish": "start"})

        assert str(answer.url).endswith("/ui/servers#server-kimi")
        wish = store.claim_wish("kimi")
        assert wish is not None
        assert wish.wish == "start"


def test_what_a_fix_has_cost_stays_on_the_servers_card_with_the_way_back(store: Store, browser: httpx.Client) -> None:
    number, _ = proposed(store)
    command = [*COMMAND, "--disable-overlap-schedule"]
    change = Fix(set={"--disable-overlap-schedule": True})
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.AUTO, command=COMMAND):
        attempt = store.begin_attempt(
            number, AttemptKind.RELAUNCH, command, fix=change, safety=Safety.DEGRADING, loses=("overlap-schedule",)
        )
        store.settled(store.begin_launch("kimi", command, Engine.SGLANG, attempt_id=attempt), "ready")
        page = browser.get("/ui/servers").text

    assert "Since a fix it runs without overlap-schedule" in page
    assert '<button name="wish" value="restore">Restart with the configured command</button>' in page


@pytest.mark.parametrize("wish", ["", "format-the-disk"])
def test_a_form_without_a_known_wish_changes_nothing(store: Store, browser: httpx.Client, wish: str) -> None:
    number, _ = proposed(store)
    mark = mark_of(browser.get(f"/ui/incidents/{number}"))

    assert browser.post("/ui/servers/kimi/wish", data={"csrf": mark, "wish": wish}).status_code == 422


def test_a_server_that_nobody_here_acts_for_has_no_buttons_and_takes_no_wish(
    store: Store, browser: httpx.Client
) -> None:
    number, _ = proposed(store)
    mark = mark_of(browser.get(f"/ui/incidents/{number}"))
    answer = browser.post("/ui/servers/kimi/wish", data={"csrf": mark, "wish": "start"})

    assert 'name="wish"' not in browser.get("/ui/servers").text
    assert answer.status_code == 409


def test_a_wish_without_the_forms_mark_is_refused(store: Store, browser: httpx.Client) -> None:
    died(store)

    assert browser.post("/ui/servers/kimi/wish", data={"wish": "start"}).status_code == 403


def test_the_log_of_a_server_is_shown_as_text(store: Store, browser: httpx.Client, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(HOSTILE + "\nready\n")
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.AUTO, command=COMMAND):
        store.launch_started(store.begin_launch("kimi", COMMAND, Engine.SGLANG), os.getpid(), log_path=log)
        page = browser.get("/ui/servers/kimi/log", params={"q": "READY"}).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert '<span class="line plain  hit">ready</span>' in page
    assert "<script>alert" not in page


def test_the_log_of_no_server_is_not_found(browser: httpx.Client) -> None:
    assert browser.get("/ui/servers/nobody/log").status_code == 404


def test_rules_are_found_and_those_that_are_wrong_are_told(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "rules" / "any"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("id: any/broken\ntitel: x\n")
    rules = load_rules([tmp_path / "rules"])
    with serving(store, rules=rules) as address, httpx.Client(base_url=address, follow_redirects=True) as client:
        page = client.get("/ui/rules", params={"q": "port-in-use"}).text

    assert "any/port-in-use" in page
    assert "any/shm-too-small" not in page
    assert "there is no such field" in page
    assert "It is left out; all others stay in use." in page


def test_what_the_machine_looked_like_is_shown_and_markup_in_it_is_text(store: Store, browser: httpx.Client) -> None:
    number = died(store)
    [folder] = store.evidence_folder(number).glob("launch-*")
    around = {
        "kernel-log": {"available": True, "text": "first\n<script>alert(1)</script>"},
        "gpus": {"available": False, "text": "not available here"},
    }
    (folder / "surroundings.json").write_text(json.dumps(around))
    page = browser.get(f"/ui/incidents/{number}").text

    assert "first\n&lt;script&gt;alert(1)&lt;/script&gt;\n" in page
    assert "not available here" not in page


def test_the_page_leads_to_the_evidence(store: Store, browser: httpx.Client) -> None:
    number = died(store)
    page = browser.get(f"/ui/incidents/{number}").text
    assert f'href="/incidents/{number}/evidence" download' in page


def test_the_root_leads_to_the_incidents(browser: httpx.Client) -> None:
    answer = browser.get("/")

    assert (answer.status_code, answer.url.path) == (200, "/ui/incidents")


def test_without_incidents_the_list_says_how_to_begin(browser: httpx.Client) -> None:
    page = browser.get("/ui/incidents").text

    assert "No incidents yet." in page
    assert "crashcart run -- " in page


def test_without_servers_the_page_says_how_to_begin(browser: httpx.Client) -> None:
    assert "No servers yet." in browser.get("/ui/servers").text


def test_when_all_is_resolved_the_list_says_so(store: Store, browser: httpx.Client) -> None:
    store.resolve(died(store), "mended")

    assert "Nothing is open." in browser.get("/ui/incidents").text


def test_the_list_names_each_unresolved_incident_and_the_title_counts_them(store: Store, browser: httpx.Client) -> None:
    number = died(store, title="The flag is unknown")
    page = browser.get("/ui/incidents").text

    assert f'href="/ui/incidents/{number}">The flag is unknown</a>' in page
    assert "<title>1 open – Crashcart</title>" in page


def test_the_address_narrows_the_list(store: Store, browser: httpx.Client) -> None:
    died(store, "kimi", title="First")
    died(store, "llama", title="Second")
    page = browser.get("/ui/incidents", params={"show": "all", "server": "llama"}).text

    assert "Second" in page
    assert "First" not in page


def test_more_incidents_than_a_page_holds_are_reached_by_a_link(store: Store, browser: httpx.Client) -> None:
    for number in range(51):
        store.resolve(died(store, title=f"Failure {number}"), "mended")
    page = browser.get("/ui/incidents?show=resolved").text
    older = re.search(r'href="([^"]+)">Older incidents', page)
    assert older

    assert "Failure 0<" in browser.get(older[1].replace("&amp;", "&")).text


def test_an_incident_says_what_happened_why_and_shows_the_proving_line(store: Store, browser: httpx.Client) -> None:
    page = browser.get(f"/ui/incidents/{died(store)}").text

    assert "exit code 2 while loading" in page
    assert "It said error: unrecognized arguments" in page
    assert '<pre class="proof">error: unrecognized arguments</pre>' in page


def test_the_log_around_the_proving_line_has_no_secrets(store: Store, browser: httpx.Client) -> None:
    page = browser.get(f"/ui/incidents/{died(store)}").text

    assert '<span class="line hit"><span class="lineno">3</span>error: unrecognized arguments</span>' in page
    assert "hf_abcdef" not in page


def test_a_proposal_shows_the_command_before_and_after(store: Store, browser: httpx.Client) -> None:
    incident, _ = proposed(store)
    page = browser.get(f"/ui/incidents/{incident}").text

    assert '<del><span class="sign">− </span>--num-speculative-tokens 16</del>' in page
    assert '<ins><span class="sign">+ </span>--speculative-num-draft-tokens 16</ins>' in page


def test_hostile_log_text_is_shown_and_never_run(store: Store, browser: httpx.Client) -> None:
    incident = died(store, line=HOSTILE, title=HOSTILE)
    store.propose(incident, Fix(set={"--a": HOSTILE}), ("serve", HOSTILE), Safety.MANUAL, (HOSTILE,), title=HOSTILE)
    pages = [browser.get(path).text for path in (f"/ui/incidents/{incident}", "/ui/incidents", "/ui/servers")]

    assert all("&lt;script&gt;alert(1)&lt;/script&gt;" in page for page in pages)
    assert not any("<script>alert" in page or "<img src=x" in page or "\u202e" in page for page in pages)
    assert all("{{ 7*7 }}" in page for page in pages)


def test_hostile_addresses_are_shown_and_never_run(browser: httpx.Client) -> None:
    page = browser.get("/ui/incidents", params={"server": HOSTILE, "show": HOSTILE, "before": HOSTILE}).text

    assert "No such incidents." in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("path", ["/ui/incidents", "/ui/incidents/1", "/ui/servers", "/ui/nowhere", "/ui/login"])
def test_pages_allow_no_script_of_their_own_and_no_framing(path: str, browser: httpx.Client) -> None:
    answer = browser.get(path)

    assert "script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", answer.text)


@pytest.mark.parametrize("path", ["/ui/incidents/7", "/ui/incidents/x", "/ui/incidents/" + "9" * 30, "/ui/nowhere"])
def test_what_is_not_there_gets_a_page_that_leads_back(path: str, browser: httpx.Client) -> None:
    answer = browser.get(path)

    assert answer.status_code == 404
    assert 'href="/ui/incidents"' in answer.text


def test_all_that_pages_load_is_there(store: Store, browser: httpx.Client) -> None:
    page = browser.get(f"/ui/incidents/{died(store)}").text
    loaded = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', page)

    assert len(loaded) == 6
    assert [browser.get(path).status_code for path in loaded] == [200] * 6


@pytest.mark.parametrize(("word", "wish"), [("approve", Wish.APPROVE), ("reject", Wish.REJECT)])
def test_a_plain_form_post_decides_on_the_fix(word: str, wish: Wish, store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    page = browser.get(f"/ui/incidents/{incident}")
    form = {"csrf": mark_of(page), "fix_id": str(fix), "decision": word}
    answer = browser.post(f"/ui/incidents/{incident}/fix", data=form)
    decision = store.claim_decision("kimi")

    assert (answer.status_code, answer.history[0].status_code) == (200, 303)
    assert decision is not None
    assert (decision.wish, decision.proposal.id, decision.by) == (wish, fix, "someone at the dashboard (127.0.0.1)")


def test_after_an_approval_the_page_says_whether_anybody_carries_it_out(store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    form = {"csrf": mark_of(browser.get(f"/ui/incidents/{incident}")), "fix_id": str(fix), "decision": "approve"}
    page = browser.post(f"/ui/incidents/{incident}/fix", data=form).text

    assert f"Fix {fix} is approved, but no Crashcart acts for kimi now" in page


def test_a_proposal_that_was_overtaken_gets_a_clear_message(store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    mark = mark_of(browser.get(f"/ui/incidents/{incident}"))
    newer = store.propose(incident, Fix(set={"--c": "1"}), ("serve", "--c", "1"), Safety.SAFE, title="Another")
    answer = browser.post(
        f"/ui/incidents/{incident}/fix", data={"csrf": mark, "fix_id": str(fix), "decision": "approve"}
    )

    assert answer.status_code == 409
    assert f"Nothing was changed: Fix {fix} is not what incident {incident} proposes now" in answer.text
    assert store.proposal(newer).status == "proposed"


@pytest.mark.parametrize("mark", ["", "0" * 64, "é"])
def test_a_form_of_another_site_changes_nothing(mark: str, store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    browser.get(f"/ui/incidents/{incident}")
    answer = browser.post(
        f"/ui/incidents/{incident}/fix", data={"csrf": mark, "fix_id": str(fix), "decision": "approve"}
    )

    assert answer.status_code == 403
    assert store.incident(incident).status is IncidentStatus.PROPOSED


def test_a_mark_of_another_browser_changes_nothing(store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    mark = mark_of(httpx.get(browser.base_url.join(f"/ui/incidents/{incident}")))
    browser.get(f"/ui/incidents/{incident}")
    answer = browser.post(
        f"/ui/incidents/{incident}/fix", data={"csrf": mark, "fix_id": str(fix), "decision": "approve"}
    )

    assert answer.status_code == 403
    assert store.claim_decision("kimi") is None


def test_only_small_forms_are_read(store: Store, browser: httpx.Client) -> None:
    incident, _ = proposed(store)

    assert browser.post(f"/ui/incidents/{incident}/fix", data={"csrf": "x" * 20_000}).status_code == 413
    assert browser.post(f"/ui/incidents/{incident}/fix", json={"decision": "approve"}).status_code == 415


def test_a_form_without_a_decision_is_refused(store: Store, browser: httpx.Client) -> None:
    incident, fix = proposed(store)
    form = {"csrf": mark_of(browser.get(f"/ui/incidents/{incident}")), "fix_id": str(fix)}

    assert browser.post(f"/ui/incidents/{incident}/fix", data=form).status_code == 422


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: httpx.Client) -> None:
    cookie = browser.get("/ui/incidents").headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_a_server_shows_its_state_evidence_and_open_incident(store: Store, browser: httpx.Client) -> None:
    number = died(store)
    page = browser.get("/ui/servers").text

    assert "Exited</span>" in page
    assert "exit code 2 while loading" in page
    assert f'href="/ui/incidents/{number}">#{number} No such flag</a>' in page


def test_with_a_token_pages_show_nothing_before_the_login(store: Store) -> None:
    number = died(store, title="Secret failure")
    with serving(store, token="open sesame") as url, httpx.Client(base_url=url, follow_redirects=True) as client:
        pages = [
            client.get(path) for path in (f"/ui/incidents/{number}", "/ui/incidents", "/ui/servers", "/ui/nowhere")
        ]
        post = client.post(f"/ui/incidents/{number}/fix", data={"decision": "approve", "fix_id": "1"})

    assert {page.url.path for page in pages} == {"/ui/login"}
    assert not any("Secret failure" in page.text for page in (*pages, post))
    assert post.status_code == 403


def test_the_token_opens_the_page_that_was_asked_for(store: Store) -> None:
    number = died(store, title="Secret failure")
    with serving(store, token="open sesame") as url, httpx.Client(base_url=url, follow_redirects=True) as client:
        wrong = client.post("/ui/login", data={"token": "open"})
        form = {"token": "open sesame", "next": f"/ui/incidents/{number}"}
        right = client.post("/ui/login", data=form)

    assert (wrong.status_code, "That is not the token." in wrong.text) == (401, True)
    assert (right.status_code, "Secret failure" in right.text) == (200, True)


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example/", "/ui/\\evil.example", "/docs"])
def test_a_login_never_leads_to_another_site(elsewhere: str, store: Store) -> None:
    with serving(store, token="open sesame") as url:
        answer = httpx.post(f"{url}/ui/login", data={"token": "open sesame", "next": elsewhere})

    assert answer.headers["location"] == "/ui/incidents"


def test_logging_out_ends_the_session(store: Store) -> None:
    with serving(store, token="open sesame") as url, httpx.Client(base_url=url, follow_redirects=True) as client:
        page = client.post("/ui/login", data={"token": "open sesame"})
        client.post("/ui/logout", data={"csrf": mark_of(page)})

        assert client.get("/ui/incidents").url.path == "/ui/login"


def test_the_stream_tells_pages_of_news(store: Store, browser: httpx.Client) -> None:
    with browser.stream("GET", "/ui/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        died(store)

        assert "event: transition" in (next(lines) for _ in range(6))


def test_with_a_token_the_stream_is_closed_to_strangers(store: Store) -> None:
    with serving(store, token="open sesame") as url:
        assert httpx.get(f"{url}/ui/stream").status_code == 204

"""The pages load from this host alone, the description of the API included."""

from __future__ import annotations

import re

import httpx
import pytest

from app.store.store import Store
from tests.web.serving import serving


def test_the_description_loads_its_own_files_only(store: Store) -> None:
    with serving(store) as url:
        page = httpx.get(f"{url}/docs")
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        codes = [httpx.get(f"{url}{path}").status_code for path in loaded]
    assert len(loaded) == 5
    assert codes == [200] * 5
    assert "script-src 'self';" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/ui/incidents", "/ui/servers", "/docs"])
def test_no_page_names_another_host(store: Store, path: str) -> None:
    with serving(store) as url:
        page = httpx.get(f"{url}{path}").text
    assert re.findall(r'(?:src|href|action)="(?:https?:)?//[^"]*"', page) == []

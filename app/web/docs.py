"""`/docs`: the description of the API for people, from files of our own: no request leaves the host."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

# Swagger UI writes styles into its elements and draws its icons from data addresses; scripts are our files alone.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Crashcart API</title>
  <link rel="icon" type="image/svg+xml" href="/ui/static/fine.svg">
  <link rel="stylesheet" href="/ui/static/swagger-ui-5.35.0.css">
  <script src="/ui/static/swagger-ui-5.35.0.js" defer></script>
  <script src="/ui/static/docs.js" defer></script>
</head>
<body>
  <div id="docs"></div>
  <noscript>The description itself is at <a href="/openapi.json">/openapi.json</a>.</noscript>
</body>
</html>
"""


def add_docs(app: FastAPI) -> None:
    """Adds the page; the application's own one, which loads from elsewhere, must be off."""

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})

"""Makes docs/images/dashboard.png: the page of the demo's incident, as Chromium shows it.

Usage: python scripts/dashboard.py [CHROMIUM]. Plays the demo first, in a state folder of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "dashboard.png"
LISTEN = "127.0.0.1:8345"
PAGE = f"http://{LISTEN}/ui/incidents/1"
# A page that listens to a stream never ends loading: the picture is taken after a time.
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,1130",
    "--timeout=2500",
]


def main() -> None:
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as folder:
        words = [Path(sys.executable).with_name("crashcart"), "--state", f"{folder}/state", "demo", "--serve"]
        env = {**os.environ, "CRASHCART_LISTEN": LISTEN}
        with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
            until_served()
            profile = f"--user-data-dir={folder}/profile"
            subprocess.run([chromium, *OPTIONS, profile, f"--screenshot={PICTURE}", PAGE], check=True, timeout=60)
            demo.send_signal(signal.SIGINT)


def until_served() -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(PAGE, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("The demo's incident was not served within a minute.")


if __name__ == "__main__":
    main()

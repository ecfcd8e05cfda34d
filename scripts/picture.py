"""Write a terminal program's coloured output as an SVG picture, for the README.

Usage: picture.py OUTPUT.svg TITLE COLUMNS COMMAND...
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def main() -> None:
    output, title, columns, *command = sys.argv[1:]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": columns, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=int(columns), file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(done.stdout))
        svg = console.export_svg(title=title)
    # The fonts that Rich names would be fetched from elsewhere: the reader's own monospaced one does.
    Path(output).write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()

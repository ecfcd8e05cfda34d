"""The `crashcart` program: where a command begins, and how its errors are told."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

from app.core.errors import CrashcartError

# Modules and rules make some hundred thousand objects that stay: looking for garbage among them takes time.
_GARBAGE_AFTER = 20_000


def main() -> None:
    """Runs the command line. An error that a person can mend is a short text and exit 2, never a traceback."""
    # The interpreter's last garbage collection takes 0.2 s, in which whoever called us waits for nothing.
    atexit.register(gc.freeze)
    try:
        sys.exit(_run(sys.argv[1:]))
    except CrashcartError as error:
        sys.stderr.write(f"crashcart: {error}\n")
        if error.mend:
            sys.stderr.write(f"  {error.mend}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing more to say, and nothing to complain about.
        sys.stderr.close()
        sys.exit(141)


def _run(words: Sequence[str]) -> int:
    gc.set_threshold(_GARBAGE_AFTER)
    if words[:1] == ["diagnose"]:
        from app.cli.postmortem import diagnose_logs, plainly_asked

        asked = plainly_asked(words[1:])
        if asked is not None:
            return diagnose_logs(asked)
    from app.cli.commands import build_app

    build_app(words)()  # ends the process
    return 0

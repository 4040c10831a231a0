"""The command line: it parses words and calls the library. Torch is imported only by the commands that train."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import CycloptsError

from mnemon.cli.app import app, console, say
from mnemon.cli.listing import data, presets, runs, settings
from mnemon.cli.mistakes import message_of
from mnemon.cli.plugins import with_plugins
from mnemon.cli.reporting import report
from mnemon.cli.reproducing import reproduce
from mnemon.cli.showing import show
from mnemon.cli.sweeping import sweep
from mnemon.cli.training import compare, run
from mnemon.errors import Interrupted, UsageError

for command in (run, compare, reproduce, sweep, report, presets, settings, show):
    app.command(with_plugins(command))
app.command(with_plugins(runs), name="list")
app.command(data)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command; a user's error is one line and exit code 2."""
    words = sys.argv[1:] if words is None else words
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except (UsageError, CycloptsError) as error:
        console(stderr=True).print(f"mnemon: {message_of(error)}", style="red", soft_wrap=True)
        code = 2
    except Interrupted as stop:
        say(str(stop))
        code = 130
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader (such as head) has gone
        sys.stderr.close()
        code = 0
    _leave(code or 0)


def _leave(code: int) -> NoReturn:
    shared = sys.modules.get("mnemon.training.distributed")  # a command that only looks has no need of it
    if shared is not None:
        shared.leave(code)
    sys.exit(code)

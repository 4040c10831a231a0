"""How processes that mnemon starts ask for memory: in huge pages, and without giving it back after each step.

A step makes and drops tensors of many megabytes. By itself glibc asks the system for each of them anew, in pages of
4 kB, which the system has to find and to clear. The C library reads its settings only when a program starts: so the
command starts itself again with them, and starts its workers with them. `import mnemon` changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

NO_HUGE_PAGES = "MNEMON_NO_HUGE_PAGES"
"""The variable of the environment that leaves everything as the system has it."""
VARIABLE = "GLIBC_TUNABLES"
"""The variable of the environment that the C library reads."""
KEPT = 2**30
"""Bytes: what is larger comes from the system and goes back to it when it is dropped; what is smaller is kept."""
HUGE_PAGES = "glibc.malloc.hugetlb"
SETTINGS = {
    HUGE_PAGES: "1",  # those that the system makes of its own accord, as far as it has them (madvise)
    "glibc.malloc.mmap_threshold": str(KEPT),
    "glibc.malloc.trim_threshold": str(KEPT),
}
SINCE = (2, 35)
"""The version of glibc that knows huge pages."""
PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def restart_with_huge_pages() -> None:
    """Start this program anew with the settings, unless it has them: same process, same words, same environment."""
    wanted = settings()
    if wanted is None or wanted == os.environ.get(VARIABLE) or not sys.executable:
        return
    with contextlib.suppress(OSError):  # it can do without
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, VARIABLE: wanted})


@contextlib.contextmanager
def processes_with_huge_pages() -> Iterator[None]:
    """Let processes that are started meanwhile have the settings."""
    wanted, before = settings(), os.environ.get(VARIABLE)
    if wanted is None:
        yield
        return
    os.environ[VARIABLE] = wanted
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def in_words() -> str:
    """Say how this process asks for memory."""
    given = _settings_in(_environment_at_start().get(VARIABLE, "")).get(HUGE_PAGES, "0")
    return "huge pages" if given in ("1", "2") and _supported() else "as the system has it"


def settings() -> str | None:
    """Return what the C library is to read in a new process; None where it is to be left alone.

    What the user has set goes before.
    """
    if os.environ.get(NO_HUGE_PAGES, "") not in ("", "0", "false", "no") or not _supported():
        return None
    given = os.environ.get(VARIABLE, "")
    missing = [f"{name}={value}" for name, value in SETTINGS.items() if name not in _settings_in(given)]
    return ":".join([*([given] if given else []), *missing])


def _settings_in(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(":"))
    return {name: value for name, equals, value in pairs if equals}


def _supported() -> bool:
    """Tell whether both the C library and the system know huge pages."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
        pages = PAGES.read_text()
    except (AttributeError, ValueError, OSError):
        return False
    version = re.fullmatch(r"glibc (\d+)\.(\d+)", library.strip())
    return version is not None and (int(version[1]), int(version[2])) >= SINCE and "[never]" not in pages


def _environment_at_start() -> Mapping[str, str]:
    """Return the environment with which this process was started: what was set later came too late."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(entry).partition("=")[::2] for entry in entries if entry)

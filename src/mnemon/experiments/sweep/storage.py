"""Where the study of a sweep is kept: a journal in its folder, or a database that several machines share."""

from __future__ import annotations

import errno
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mnemon import extras
from mnemon.config import differences, first_of
from mnemon.errors import UsageError
from mnemon.experiments.older_records import up_to_date
from mnemon.printable import HIDDEN, is_secret, password_hidden

if TYPE_CHECKING:
    import optuna
    import sqlalchemy

    from mnemon.experiments.sweep.space import Space

T = TypeVar("T")
_REFUSALS = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EIO)
"""What the system says of a disk that is read-only, full or broken, and of a folder of others."""
SECONDS = 5
"""How long a database may take to answer."""


def open_study(name: str, journal: Path, url: str | None, space: Space, seed: int, metric: str) -> optuna.Study:
    """Return the study of this name, a new one or one that was begun with the same space."""
    optuna = _optuna()
    storage = _database(url) if url else _journal(journal)
    pruner = optuna.pruners.MedianPruner() if space.pruning else optuna.pruners.NopPruner()
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        pruner=pruner,
        direction="minimize" if metric == "mse" else "maximize",
        load_if_exists=True,
    )
    identity = json.loads(json.dumps({**space.identity(), "seed": seed}))
    begun = study.user_attrs.get("space")
    if begun is None and study.get_trials(deepcopy=False):
        raise UsageError(f"The study '{name}' was not begun by mnemon: choose another --study.")
    if begun is None:
        _in_turn(lambda: study.set_user_attr("space", identity))
    elif different := differences(identity, {**begun, "config": up_to_date(begun.get("config", {}))}):
        raise UsageError(
            f"The study '{name}' was begun with another space: {first_of(different)} "
            "(given and begun with). Use the same one, or choose another --study or --out."
        )
    return study


def check_optuna() -> None:
    """Refuse a sweep where Optuna is not installed."""
    _optuna()


def check_database(url: str) -> None:
    """Refuse a database that does not answer."""
    _database(url)


def without_password(url: str) -> str:
    """Return the URL of a database as it may be shown and written down."""
    return password_hidden(_parsed(url).render_as_string(hide_password=True))


def _secrets_of(url: str) -> list[str]:
    """Return what a URL holds that nobody should see."""
    parsed = _parsed(url)
    values = [value for name, value in parsed.query.items() if is_secret(name)]
    texts = [text for value in values for text in ([value] if isinstance(value, str) else value)]
    # What follows an @ in a password is taken for a part of the host, and then said as such.
    access = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    rest = [f"{part}@" for part in access.split("@")[1:]]
    return [text for text in (parsed.password, access, *rest, *texts) if text]


@contextmanager
def said_of_database(url: str | None) -> Iterator[None]:
    """Turn what goes wrong with a database into a line for the user."""
    if url is None or extras.missing("postgres", "sqlalchemy"):
        yield
        return
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        yield
    except ArgumentError:  # the URL itself is wrong
        raise
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = getattr(error, "orig", None) or error.__cause__ or error
        reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
        for secret in _secrets_of(url):
            reason = reason.replace(secret, HIDDEN)
        raise UsageError(f"The database {without_password(url)} cannot be reached: {reason}") from error


@contextmanager
def said_of_folder(folder: Path) -> Iterator[None]:
    """Turn what the system refuses in the folder of a sweep, such as a write to a full disk, into a line."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise UsageError(
            f"The sweep in {folder} cannot be written: {error.strerror}. "
            "Free some space or make the folder writable, then resume."
        ) from error


def _optuna() -> Any:
    extras.require("sweep", "A sweep needs")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _journal(path: Path) -> optuna.storages.BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    _mend(path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # of a parent that was killed while it wrote
    return JournalStorage(JournalFileBackend(str(path)))


def _mend(path: Path) -> None:
    """Cut off a last line that was not written to its end when the parent was killed."""
    if path.exists() and not (text := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(text[: text.rfind(b"\n") + 1])


def _in_turn(action: Callable[[], T]) -> T:
    """Do something again if another machine was doing the same, such as making the tables of a new database."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    for _ in range(9):
        try:
            return action()
        except (IntegrityError, ProgrammingError):
            time.sleep(random.uniform(0.1, 0.5))
    return action()


def _database(url: str) -> optuna.storages.BaseStorage:
    kind = _parsed(url).get_backend_name()
    options = {"connect_args": {"timeout" if kind == "sqlite" else "connect_timeout": SECONDS}}
    from optuna.storages import RDBStorage

    try:
        with _said_of_url(url), said_of_database(url):
            return _in_turn(lambda: RDBStorage(url, engine_kwargs=options))
    except ImportError as error:
        raise UsageError(f"The database needs a package: {error}. Try: pip install 'mnemon[postgres]'.") from error


def _parsed(url: str) -> sqlalchemy.URL:
    extras.require("postgres", "A study in a database needs", "sqlalchemy", "alembic")
    from sqlalchemy.engine import make_url

    with _said_of_url(url):
        return make_url(url)


@contextmanager
def _said_of_url(url: str) -> Iterator[None]:
    """Turn what is wrong with the URL itself into a line for the user."""
    from sqlalchemy.exc import ArgumentError

    try:
        yield
    except (ArgumentError, ValueError) as error:
        raise UsageError(
            "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, "
            f"not '{password_hidden(url)}'."
        ) from error

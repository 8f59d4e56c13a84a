"""The lineage database's schema: Alembic migrations, up and down, one process at a time.

`python -m infra.schema REVISION` moves the database that the settings name to a revision (`head`, `base`, `0001`), in
either direction; going down drops what the newer revisions added.
"""

import argparse
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from infra.database import exclusive, open_engine, patiently, shown
from infra.errors import BadSpecError
from infra.settings import read_settings

NOTHING, NEWEST = "base", "head"
_MIGRATIONS = Path(__file__).with_name("migrations")
_LOCK = "migrations"


def revision(engine: Engine) -> str:
    """The revision that the database is at; NOTHING for a new one."""

    def read() -> str | None:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    return patiently(engine, read) or NOTHING


def upgrade(engine: Engine) -> None:
    """Bring the database to the newest schema; one that has it is only looked at."""
    if revision(engine) != _revisions(_config())[-1]:
        move(engine, NEWEST)


def move(engine: Engine, wanted: str) -> None:
    """Bring the database to a revision, up or down. Raises BadSpecError for one that this program does not know."""
    config = _config()
    revisions = _revisions(config)
    target = revisions[-1] if wanted == NEWEST else wanted
    with exclusive(engine, _LOCK):
        present = revision(engine)  # who had the lock before us may have moved it
        for name in (present, target):
            if name not in revisions:
                raise BadSpecError(
                    f"lineage database {shown(engine.url)}: want a schema of {', '.join(revisions)}, got {name!r}; "
                    f"use the glmflow that made it"
                )
        go = command.downgrade if revisions.index(target) < revisions.index(present) else command.upgrade
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            go(config, target)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def _revisions(config: Config) -> list[str]:
    """Oldest first, beginning with NOTHING."""
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    return [NOTHING, *reversed([script.revision for script in scripts])]


def main(argv: list[str] | None = None) -> None:
    """Move the database of the settings."""
    parser = argparse.ArgumentParser(prog="python -m infra.schema")
    parser.add_argument("revision", metavar="REVISION", help=f"{NEWEST}, {NOTHING}, or one of infra/migrations")
    engine = open_engine(read_settings().resolved_lineage_url())
    move(engine, parser.parse_args(argv).revision)


if __name__ == "__main__":
    main()

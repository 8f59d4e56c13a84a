"""The books of a platform on PostgreSQL: what its three databases say of its runs. A lost or a doubled one shows."""

from collections import Counter
from typing import Any

import psycopg

OPEN_STATES = ("RUNNING", "PENDING", "CANCELLING", "SCHEDULED")


class PlatformBooks:
    """Read straight from the databases behind one GLMFLOW_DATABASE_URL."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url

    def _rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(f"{self._url}_{database}") as connection:
            return connection.execute(query).fetchall()

    def stage_runs(self) -> Counter[tuple[str, str]]:
        """How often each (stage, key) was computed and recorded."""
        return Counter(self._rows("lineage", "SELECT stage, key FROM stage_runs"))

    def lifecycles(self) -> Counter[tuple[int, str]]:
        """How many runs of each (seed, status)."""
        return Counter(self._rows("lineage", "SELECT seed, status FROM lifecycles"))

    def flow_runs(self) -> Counter[tuple[str, str]]:
        """How many flow runs of each (flow, state)."""
        query = "SELECT f.name, r.state_type::text FROM flow_run r JOIN flow f ON f.id = r.flow_id"
        return Counter(self._rows("prefect", query))

    def open_flow_runs(self) -> list[tuple[str, str]]:
        return [row for row in self.flow_runs() if row[1] in OPEN_STATES]

    def tracked(self) -> Counter[tuple[str, str, str]]:
        """How many MLflow runs of each (lifecycle, our name, status)."""
        query = (
            "SELECT l.value, n.value, r.status FROM runs r "
            "JOIN tags l ON l.run_uuid = r.run_uuid AND l.key = 'glmflow.lifecycle' "
            "JOIN tags n ON n.run_uuid = r.run_uuid AND n.key = 'glmflow.run'"
        )
        return Counter(self._rows("mlflow", query))

    def num_untagged(self) -> int:
        """MLflow runs that were created and then forgotten."""
        query = "SELECT count(*) FROM runs WHERE run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = 'glmflow.run')"
        return int(self._rows("mlflow", query)[0][0])

    def check_closed(self) -> None:
        """Nothing is open, nothing is there twice."""
        assert set(self.stage_runs().values()) == {1}, self.stage_runs()
        assert not [row for row in self.lifecycles() if row[1] == "running"], self.lifecycles()
        assert self.open_flow_runs() == []
        tracked = self.tracked()
        assert set(tracked.values()) == {1} and not [row for row in tracked if row[2] == "RUNNING"], tracked
        assert self.num_untagged() == 0

"""MLflow's server on a database that may be new: `python -m infra.mlflow_server`, with `mlflow server`'s own options.

MLflow makes the tables of an empty database without a lock; here they are made before the server starts, while nobody
else makes them. The database's address is MLFLOW_BACKEND_STORE_URI: on a command line its password could be read.
"""

import os
import sys
from collections.abc import Sequence

from infra.registry import connect

ADDRESS_VARIABLE = "MLFLOW_BACKEND_STORE_URI"


def main(options: Sequence[str]) -> None:
    """Make the tables that are missing, and serve until SIGTERM."""
    connect(os.environ[ADDRESS_VARIABLE])
    from mlflow.cli import cli

    cli(["server", *options], prog_name="mlflow")


if __name__ == "__main__":
    main(sys.argv[1:])

"""`glmflow deploy` needs a platform. (With one: tests/e2e/test_platform.py.)"""

import argparse
import os
from pathlib import Path

import pytest

from flows.commands import deploy
from infra.errors import BadSpecError


def test_without_a_platform_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "environ", {**os.environ, "GLMFLOW_HOME": str(tmp_path)})
    os.environ.pop("PREFECT_API_URL", None)
    with pytest.raises(BadSpecError, match=f"deploy: want a platform that runs on {tmp_path}, got none; `glmflow up`"):
        deploy.run(argparse.Namespace(file=None))

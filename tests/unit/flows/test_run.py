"""How a run ends is what it was ended by. (A whole run: tests/integration/test_lifecycle.py.)"""

import pytest

from flows.run import _status
from infra.errors import StageFailedError, StopRequestedError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "finished"),
        (StageFailedError("x"), "failed"),
        (ValueError("a bug"), "failed"),
        (StopRequestedError("x"), "stopped"),
        (KeyboardInterrupt(), "stopped"),
    ],
)
def test_a_stop_is_no_failure(error: BaseException | None, status: str):
    assert _status(error) == status

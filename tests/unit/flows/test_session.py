"""The flows find the session that was entered, and only inside of it."""

import pytest

from flows.session import Session, current, entered


def test_the_entered_session_is_the_current_one_until_its_end():
    session = object.__new__(Session)
    with pytest.raises(LookupError):
        current()
    with entered(session):
        assert current() is session
    with pytest.raises(LookupError):
        current()


def test_the_place_counts_what_has_finished():
    session = object.__new__(Session)
    session.results, session.steps = [None, None], [None] * 5  # type: ignore[list-item]
    assert session.place == (3, 5)

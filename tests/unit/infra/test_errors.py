"""The type of an error decides about the retry, so the types must stay apart."""

from infra import errors


def test_every_error_is_one_that_is_shown_without_a_traceback():
    kinds = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)]
    assert all(issubclass(kind, errors.GlmflowError) for kind in kinds)


def test_what_is_never_retried_is_no_kind_of_what_may_be():
    assert not issubclass(errors.BadSpecError, errors.RetryableError)
    assert not issubclass(errors.StopRequestedError, errors.RetryableError)

"""Errors whose type decides what happens next: refuse, retry, or stop."""


class GlmflowError(Exception):
    """Base of every error that is shown to a person as one sentence, without a traceback."""


class BadSpecError(GlmflowError):
    """The config or the input is wrong; never retried (exit code 2)."""


class RetryableError(GlmflowError):
    """The world was in the way (a changed file, a lost node); the same call may succeed later (exit code 1)."""


class StageFailedError(GlmflowError):
    """A stage raised; the message says where its log is (exit code 1)."""


class StopRequestedError(GlmflowError):
    """A stop was asked for and obeyed; the same command goes on from the saved state (exit code 143)."""


class ArtifactMissingError(GlmflowError):
    """A reference is well-formed but its bytes are not in this store, or not all of them."""

"""A stop that was asked for with a signal: remembered, so that the running stage can save its state first.

While a stage's process runs, `listening` owns SIGINT, SIGTERM and SIGHUP (Prefect's own SIGTERM handler is put back
afterwards). A signal is only remembered; a second SIGINT means "now" and raises KeyboardInterrupt. A second SIGTERM
does not: supervisors repeat it, and Prefect sends it on to this handler after its own has dealt with it.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSwitch:
    """Whether a stop was asked for, and by which signal.

    One that does not listen leaves the signals to whoever has them: a run of Prefect's worker is cancelled only while
    Prefect's own handler is in place, whose exception then ends the stage as a signal would.
    """

    def __init__(self, *, listens: bool = True) -> None:
        self.signal: signal.Signals | None = None
        self._listens = listens

    @property
    def is_requested(self) -> bool:
        """True once a stop signal has come."""
        return self.signal is not None

    def request(self, signal_number: int, _frame: FrameType | None = None) -> None:
        """The signal handler."""
        if self.is_requested:
            if signal_number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.signal = signal.Signals(signal_number)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Own the stop signals in this block; only the main thread can, elsewhere nothing changes."""
        if not self._listens or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self.request) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

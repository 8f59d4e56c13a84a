"""A stop signal is remembered once and obeyed at once the second time."""

import os
import signal

import pytest

from flows.stop import StopSwitch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_remembered_and_only_a_second_interrupt_is_obeyed_at_once(number: signal.Signals):
    stop = StopSwitch()
    with stop.listening():
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_requested and stop.signal == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_of_before_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopSwitch().listening():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_switch_that_does_not_listen_leaves_the_signals_alone():
    before = signal.getsignal(signal.SIGTERM)
    with StopSwitch(listens=False).listening():
        assert signal.getsignal(signal.SIGTERM) is before

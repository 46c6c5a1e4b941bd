"""Signals are recorded, deferred during critical sections, and not lost."""

import _thread
import gc
import os
import signal
import sys
import threading
import weakref

import pytest

from heirloom import signals


@pytest.fixture
def handlers(monkeypatch):
    """Install the handlers for one test."""
    monkeypatch.setattr(signals, "_received", None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signals.install_handlers()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


NUMBERS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@NUMBERS
@pytest.mark.usefixtures("handlers")
def test_signal_is_an_interrupt_that_is_raised_again_if_it_was_swallowed(number):
    signals.check()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt):
        signals.check()
    with pytest.raises(KeyboardInterrupt), signals.restoring_interrupts():
        raise RuntimeError("a library replaced the interrupt")


@pytest.mark.usefixtures("handlers")
def test_other_exceptions_stay_as_they_are_without_a_signal():
    with pytest.raises(RuntimeError, match="no interrupt"), signals.restoring_interrupts():
        raise RuntimeError("no interrupt")


def test_ignored_signals_stay_ignored(monkeypatch):
    """A shell ignores SIGINT for the background commands of a script."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signals.install_handlers()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        with signals.uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@NUMBERS
@pytest.mark.usefixtures("handlers")
def test_signal_is_deferred_until_a_critical_section_ends(number):
    done = []

    def critical_section():
        with signals.uninterrupted():
            os.kill(os.getpid(), number)
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        critical_section()
    assert done
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("handlers")
def test_critical_section_in_another_thread_leaves_the_handlers_alone():
    """Only the main thread may set them."""
    found = []

    def run():
        with signals.uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signals._interrupt]


@pytest.mark.usefixtures("handlers")
def test_interrupt_that_python_discards_in_a_finaliser_is_sent_again():
    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        wait_after_dropping(thing := None)
    assert reference() is None
    assert signals._received == signal.SIGTERM


def wait_after_dropping(_):
    """Wait for the interrupt that was discarded when the last reference was dropped."""
    gc.collect()
    threading.Event().wait(30)


@pytest.mark.usefixtures("handlers")
def test_other_exceptions_of_finalisers_are_reported_as_usual(monkeypatch):
    reported, started = [], []
    monkeypatch.setattr(sys, "__unraisablehook__", reported.append)
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: started.append(True))

    class Thing:
        def __del__(self):
            raise ValueError("in a finaliser")

    Thing()
    assert [unraisable.exc_type for unraisable in reported] == [ValueError]
    assert not started


def test_processes_are_started_with_sigint_blocked():
    with signals.blocked_in_children():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

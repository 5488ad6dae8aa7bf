"""Signals end every command with one line and a code of 128 plus their number."""

import os
import signal
import subprocess
import sys

import pytest
from harness import in_the_foreground, python

from kbench import signals

# A command that has begun something, and takes a moment to remove it.
COMMAND = """
import sys, time
from kbench import cli

def dispatch(words):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.1)
        print("removed", flush=True)

cli._dispatch = dispatch
sys.exit(cli.main())
"""


def start(preexec_fn=in_the_foreground):
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec_fn,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("signum", signals.SIGNALS)
def test_a_command_removes_what_it_has_begun_and_says_one_line(signum):
    process = start()
    for _ in range(3):
        process.send_signal(signum)
    out, said = process.communicate()
    assert process.returncode == 128 + signum
    assert out == "removed\n"
    assert said == f"kbench: stopped by {signum.name}\n"


@pytest.mark.parametrize("lines", [1, 100_000])
def test_output_that_nobody_reads_ends_a_command_without_a_word(lines):
    """One line is written at the end of the command, 100,000 are while it prints."""
    prints = "import sys; from kbench import cli\n"
    prints += f"cli._dispatch = lambda words: print('x\\n' * {lines}) or 0\nsys.exit(cli.main())"
    unread, output = os.pipe()
    os.close(unread)
    command = subprocess.run(
        [sys.executable, "-c", prints], stdout=output, stderr=subprocess.PIPE, text=True
    )
    os.close(output)
    assert command.returncode == 128 + signal.SIGPIPE
    assert command.stderr == ""


def test_a_signal_that_nohup_ignores_stays_ignored():
    process = start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


def require_stopped(program, *words):
    """Run a program whose command gets SIGTERM: that ends it, with these words and no others."""
    done = python("-c", program, *words, preexec_fn=in_the_foreground)
    assert done.returncode == 128 + signal.SIGTERM
    assert (done.stdout, done.stderr) == ("", "kbench: stopped by SIGTERM\n")


# A command whose signal arrives where Python drops exceptions, and which goes on working.
DROPPED = """
import gc, signal, sys, time, weakref
from kbench import cli

class Gone:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

class Watched:
    pass

def destructor():
    Gone()

def cycle():
    found = Gone()
    found.own = found
    del found
    gc.collect()

def weak_reference():
    watched = Watched()
    kept = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGTERM))
    del watched

def dispatch(words):
    globals()[words[0]]()
    time.sleep(20)
    print("went on")
    return 0

cli._dispatch = dispatch
sys.exit(cli.main())
"""


@pytest.mark.parametrize("place", ["destructor", "cycle", "weak_reference"])
def test_a_signal_is_not_lost_where_python_drops_exceptions(place):
    require_stopped(DROPPED, place)


@pytest.fixture
def stops():
    """Signals that a handler got, in order; the handlers of before come back."""
    got = []
    before = {signum: signal.signal(signum, lambda n, _: got.append(n)) for signum in SOME}
    yield got
    for signum, handler in before.items():
        signal.signal(signum, handler)


SOME = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("signum", SOME)
def test_a_signal_waits_until_a_process_has_been_started(stops, signum):
    with signals.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stops == []
        os.kill(os.getpid(), signum)  # an impatient user's
        # SIGINT is blocked in this thread, but another one of the tests' process may take it.
        assert stops == [signum] or (signum == signal.SIGINT and stops == [])
    assert signal.SIGTERM in stops
    stops.clear()
    os.kill(os.getpid(), signum)
    assert stops == [signum]


def test_a_process_that_is_started_meanwhile_ignores_an_interrupt():
    asks = (
        "import os, signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGINT})"
    )
    asks += "\nos.kill(os.getpid(), signal.SIGINT); print('there')"
    with signals.deferred():
        done = python("-c", asks)
    assert done.stdout == "True\nthere\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_signal_in_a_block_that_fails_is_handled(stops):
    def fails():
        with signals.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert stops == [signal.SIGTERM]


# A command whose signal arrives in a library that then raises an error of its own, and which takes
# that error for a fault that it can do without.
REPLACED = """
import contextlib, signal, sys
from kbench import cli, signals
from kbench.errors import ConfigError

def dispatch(words):
    with contextlib.suppress(*([ConfigError] if "suppressed" in words else [])):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise ConfigError("half done")
    if "sweep" in words:
        signals.raise_again()
        print("went on")
    return 0

cli._dispatch = dispatch
sys.exit(cli.main())
"""


@pytest.mark.parametrize("words", ["", "suppressed", "suppressed sweep"])
def test_a_signal_is_not_lost_where_an_error_takes_its_place(words):
    require_stopped(REPLACED, *words.split())

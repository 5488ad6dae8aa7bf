"""Signals end every command with one line and a code of 128 plus their number."""

import os
import signal
import subprocess
import sys

import pytest

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
        time.sleep(0.3)
        print("removed", flush=True)

cli._dispatch = dispatch
sys.exit(cli.main())
"""


def in_the_foreground():
    """Signals as a shell sets them; under nohup the suite ignores some."""
    for signum in signals.SIGNALS:
        signal.signal(signum, signal.SIG_DFL)


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


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("signum", signals.SIGNALS)
def test_a_command_removes_what_it_has_begun_and_says_one_line(signum, times):
    process = start()
    for _ in range(times):
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

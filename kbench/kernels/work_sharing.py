"""Compiled loops that several threads divide between them, without waiting for the interpreter.

A thread that sleeps, or waits for the interpreter's lock, starts tens of microseconds late, and
many loops take no longer. A helper thread that polls a mailbox in memory starts at once:

    caller   posts the loop in the mailbox of each helper: FREE -> POSTED
             takes blocks of iterations until none is left
             withdraws the loop from helpers that have not started, POSTED -> FREE
             waits for the other helpers
    helper   takes the loop, POSTED -> BUSY, and blocks until none is left, BUSY -> FREE
             returns to the interpreter when it is called, CALLED -> FREE, or after
             _POLLS_BEFORE_SLEEP polls without a loop

A loop is posted as the address of compiled code and the address of its arguments, which are on the
caller's stack until all helpers have finished. A helper that starts late takes fewer blocks. The
result does not depend on which thread computes which block.

A divided loop is declared in three steps, all at module level because numba's cache on disk needs
functions that it can find again:

    @njit(cache=True, nogil=True)
    def _plain(x, y, start, stop): ...         iterations start .. stop - 1; raises nothing

    _expose = divided(_plain)

    @njit(cache=True, nogil=True)
    def _shared(arguments, n, block, mailboxes):
        share(_expose(arguments), n, block, mailboxes)

    LOOP = Loop(_plain, _shared)

`threads.run` calls `_plain` if one thread is allowed, and otherwise `_shared`, which a process with
one thread therefore never compiles.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from kbench.intrinsics.atomics import call, divided, load, pause, replace, store, yield_core

__all__ = ["AWAKE", "CALLED", "STATE", "Loop", "divided", "new_mailbox", "serve", "share"]

FREE, POSTED, BUSY, CALLED = range(4)
# Positions in a mailbox. With a length of two cache lines (128 bytes), the words in use of two
# mailboxes are never in the same line.
STATE, CODE, ARGUMENTS, COUNTER, N, BLOCK, AWAKE = range(7)
_MAILBOX_LENGTH = 16
# Polls after which a waiting thread yields its core to others (about 10 microseconds), and polls
# without a loop after which a helper returns to the interpreter and sleeps (about 2 milliseconds).
# Waking costs tens of microseconds; polling occupies a core. Set by hand.
_POLLS_BEFORE_YIELD = 256
_POLLS_BEFORE_SLEEP = 1 << 16


@dataclass(frozen=True)
class Loop:
    """A compiled loop in two forms; a process usually compiles one of them."""

    plain: Callable[..., None]  # compiled function of (*arguments, start, stop)
    # compiled function of (arguments : tuple, n, block, mailboxes : (h,) int64 addresses): divides
    # n iterations into blocks of `block` iterations, and the blocks among the caller and h helpers.
    shared: Callable[..., None]


def new_mailbox() -> np.ndarray:
    """Return the mailbox of a sleeping helper; (16,) int64."""
    return np.zeros(_MAILBOX_LENGTH, np.int64)


@njit(cache=True, nogil=True)
def share(exposed, n, block, mailboxes):
    """Do the loop of `exposed` : (code, arguments, counter) together with the helpers."""
    code, arguments, counter = exposed
    for mailbox in mailboxes:
        store(mailbox + 8 * CODE, code)
        store(mailbox + 8 * ARGUMENTS, arguments)
        store(mailbox + 8 * COUNTER, counter)
        store(mailbox + 8 * N, n)
        store(mailbox + 8 * BLOCK, block)
        store(mailbox, POSTED)
    call(code, arguments, counter, n, block)
    for mailbox in mailboxes:
        if not replace(mailbox, POSTED, FREE):
            polls = 0
            while load(mailbox) == BUSY:
                polls += 1
                _wait(polls)


@njit
def _wait(polls):
    pause()
    if polls % _POLLS_BEFORE_YIELD == 0:
        yield_core()


@njit(cache=True, nogil=True)
def serve(mailbox):
    """Do the loops that are posted at this address, until called or idle for 2 milliseconds."""
    polls = 0
    while polls < _POLLS_BEFORE_SLEEP:
        if replace(mailbox, POSTED, BUSY):
            code, arguments = load(mailbox + 8 * CODE), load(mailbox + 8 * ARGUMENTS)
            counter, n = load(mailbox + 8 * COUNTER), load(mailbox + 8 * N)
            call(code, arguments, counter, n, load(mailbox + 8 * BLOCK))
            store(mailbox, FREE)
            polls = 0
        elif replace(mailbox, CALLED, FREE):
            return
        else:
            polls += 1
            _wait(polls)
    store(mailbox + 8 * AWAKE, 0)

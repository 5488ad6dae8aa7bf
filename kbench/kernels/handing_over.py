"""Loops that compiled code shares with threads which wait in compiled code.

A thread that sleeps, or waits for the interpreter's lock, begins tens of microseconds late: as long
as many a loop takes. One that looks at a place in memory begins at once:

    caller   writes into the box of each helper what is to be done: FREE -> POSTED
             takes parts of the loop in turn until there are no more
             takes back what a helper has not begun, POSTED -> FREE; waits for those that have
    helper   POSTED -> BUSY, takes parts in turn, -> FREE
             is called by the interpreter, CALLED -> FREE, or has looked in vain for long: returns

A loop is handed over as the address of a function, compiled with its caller, and that of its
arguments on the caller's stack, which stays until all have ended. Who begins late takes fewer
parts; which thread does which part changes nothing in what is computed.
"""

import os
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

FREE, POSTED, BUSY, CALLED = range(4)
# Places of a box, and its length: two cache lines, so that no two threads write to the same.
STATE, CODE, ARGUMENTS, TURN, N, PART, AWAKE = range(7)
_LENGTH = 16
# Looks after which the core is offered to others, and in vain after which a helper returns: about
# two milliseconds.
_OFFER = 256
_PATIENCE = 1 << 16

# Types of the last arguments of what `shared` makes.
SHARED = (types.int64, types.int64, types.int64[::1])

# It calls what it decorates with one argument less than was declared.
_intrinsic: Any = intrinsic

_ORDER = "seq_cst"
_INT = ir.IntType(64)


def new_box() -> np.ndarray:
    """The box of a helper that sleeps; (16,) int64."""
    return np.zeros(_LENGTH, np.int64)


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _INT.as_pointer())


@_intrinsic
def _load(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_place(builder, arguments[0]), _ORDER, 8)

    return types.int64(types.int64), generate


@_intrinsic
def _store(typing_context, address, value):
    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _place(builder, arguments[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def _add(typing_context, address, value):
    """What was there before."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _place(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def _replace(typing_context, address, before, after):
    """Whether `before` was there, and `after` is now."""

    def generate(context, builder, signature, arguments):
        place, before, after = _place(builder, arguments[0]), arguments[1], arguments[2]
        return builder.extract_value(builder.cmpxchg(place, before, after, _ORDER, _ORDER), 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@_intrinsic
def _rest(typing_context):
    """Let the other half of the core work for some cycles."""

    def generate(context, builder, signature, arguments):
        if binding.get_default_triple().startswith(("x86_64", "i686")):
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


@_intrinsic
def _offer_core(typing_context):
    """Let another thread have this one's core, if one waits for it."""

    def generate(context, builder, signature, arguments):
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


_CODE = ir.FunctionType(ir.VoidType(), [_INT] * 4)


@_intrinsic
def _call(typing_context, code, arguments, turn, n, part):
    def generate(context, builder, signature, values):
        builder.call(builder.inttoptr(values[0], _CODE.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


@njit
def _wait(looks):
    _rest()
    if looks % _OFFER == 0:
        _offer_core()


def shared(function: Any) -> Any:
    """A loop that is shared with helpers; for compiled code, like `function`.

    Parameters
    ----------
    function : compiled function of any arguments, start and stop
        It raises nothing.

    Returns
    -------
    compiled function of (arguments, n, part, boxes)
        arguments : tuple
        n, part : places of the loop in all, and in a part of it
        boxes : (h,) int64, addresses of the boxes of helpers
    """

    @_intrinsic
    def handle(typing_context, arguments):
        """Addresses of code that takes parts of function(*arguments, start, stop), of `arguments`,
        and of a turn of 0, both on the stack of the calling function.
        """

        def take_parts(arguments, turn, n, part):
            while True:
                start = _add(turn, part)
                if start >= n:
                    return
                function(*arguments, start, min(start + part, n))

        def generate(context, builder, signature, values):
            inner = types.void(signature.args[0], types.int64, types.int64, types.int64)
            compiled = context.compile_subroutine(builder, take_parts, inner)
            stored = cgutils.alloca_once_value(builder, values[0])
            turn = cgutils.alloca_once_value(builder, _INT(0))
            code = ir.Function(builder.module, _CODE, builder.module.get_unique_name("take_parts"))
            code.linkage = "internal"
            within = ir.IRBuilder(code.append_basic_block())
            given = within.load(within.inttoptr(code.args[0], stored.type))
            described, others = compiled.fndesc, code.args[1:]
            context.call_internal_no_propagate(within, described, inner, (given, *others))
            within.ret_void()
            addresses = [builder.ptrtoint(pointer, _INT) for pointer in (code, stored, turn)]
            return context.make_tuple(builder, signature.return_type, addresses)

        return types.UniTuple(types.int64, 3)(arguments), generate

    @njit
    def share(arguments, n, part, boxes):
        code, given, turn = handle(arguments)
        for box in boxes:
            _post(box, code, given, turn, n, part)
        _call(code, given, turn, n, part)
        for box in boxes:
            _take_back(box)

    return share


@njit
def _post(box, code, arguments, turn, n, part):
    _store(box + 8 * CODE, code)
    _store(box + 8 * ARGUMENTS, arguments)
    _store(box + 8 * TURN, turn)
    _store(box + 8 * N, n)
    _store(box + 8 * PART, part)
    _store(box, POSTED)


@njit
def _take_back(box):
    """Nobody is at work on what was posted any more."""
    if not _replace(box, POSTED, FREE):
        looks = 0
        while _load(box) == BUSY:
            looks += 1
            _wait(looks)


@njit(["(i8,)"], nogil=True, cache=True)
def serve(box):
    """Do what is put into the box at this address, until called or idle for long."""
    looks = 0
    while looks < _PATIENCE:
        if _replace(box, POSTED, BUSY):
            code, arguments = _load(box + 8 * CODE), _load(box + 8 * ARGUMENTS)
            _call(code, arguments, _load(box + 8 * TURN), _load(box + 8 * N), _load(box + 8 * PART))
            _store(box, FREE)
            looks = 0
        elif _replace(box, CALLED, FREE):
            return
        else:
            looks += 1
            _wait(looks)
    _store(box + 8 * AWAKE, 0)

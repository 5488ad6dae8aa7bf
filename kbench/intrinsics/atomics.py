"""Atomic access to memory that threads share, and calls of compiled code by its address.

Addresses are int64. All accesses are sequentially consistent, 8 bytes wide and 8-byte aligned.
"""

import os
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# mypy would otherwise ask for the typing context that numba passes itself.
_intrinsic: Any = intrinsic

_ORDER = "seq_cst"
_INT = ir.IntType(64)
# Signature of code that `call` can call: void(arguments, counter, n, block); see
# kernels.work_sharing.
CODE = ir.FunctionType(ir.VoidType(), [_INT] * 4)


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _INT.as_pointer())


@_intrinsic
def load(typing_context, address):
    """Return the int64 at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(builder, arguments[0]), _ORDER, 8)

    return types.int64(types.int64), generate


@_intrinsic
def store(typing_context, address, value):
    """Write the int64 `value` to `address`."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def add(typing_context, address, value):
    """Add `value` to the int64 at `address`; return the int64 before the addition."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _pointer(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def replace(typing_context, address, before, after):
    """Compare and swap: write `after` to `address` if it has `before`; return whether it had."""

    def generate(context, builder, signature, arguments):
        pointer, before, after = _pointer(builder, arguments[0]), arguments[1], arguments[2]
        return builder.extract_value(builder.cmpxchg(pointer, before, after, _ORDER, _ORDER), 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@_intrinsic
def pause(typing_context):
    """Let the other hardware thread of this core run for some cycles."""

    def generate(context, builder, signature, arguments):
        if binding.get_default_triple().startswith(("x86_64", "i686")):
            function_type = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), [])
        return context.get_dummy_value()

    return types.void(), generate


@_intrinsic
def yield_core(typing_context):
    """Let the operating system run another thread on this core, if one waits for it."""

    def generate(context, builder, signature, arguments):
        if os.name == "posix":
            function_type = ir.FunctionType(ir.IntType(32), [])
            builder.call(
                cgutils.get_or_insert_function(builder.module, function_type, "sched_yield"), []
            )
        return context.get_dummy_value()

    return types.void(), generate


@_intrinsic
def call(typing_context, code, arguments, counter, n, block):
    """Call the code of type `CODE` at the address `code` with the other four arguments."""

    def generate(context, builder, signature, values):
        builder.call(builder.inttoptr(values[0], CODE.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def divided(function: Any) -> Any:
    """Return an intrinsic that exposes a compiled loop as code which threads can call by address.

    Parameters
    ----------
    function : compiled function of (*arguments, start, stop). It raises nothing.

    Returns
    -------
    intrinsic of (arguments : tuple) -> (code, arguments, counter), three addresses
        code : address of code of type `CODE`. It takes the next `block` of n iterations by adding
        to the counter atomically, calls function(*arguments, start, stop) for them, and repeats
        until no iteration is left.
        arguments : address of the tuple; counter : address of an int64, at first 0. Both are on the
        stack of the calling compiled function and valid until it returns.
    """

    @_intrinsic
    def expose(typing_context, arguments):
        kinds = (*arguments.types, types.int64, types.int64)
        inner = types.Dispatcher(function).get_call_type(typing_context, kinds, {})

        def generate(context, builder, signature, values):
            stored = cgutils.alloca_once_value(builder, values[0])
            counter = cgutils.alloca_once_value(builder, _INT(0))
            code = ir.Function(builder.module, CODE, builder.module.get_unique_name("take_blocks"))
            code.linkage = "internal"
            _take_blocks(context, code, stored.type, function, inner)
            addresses = [builder.ptrtoint(pointer, _INT) for pointer in (code, stored, counter)]
            return context.make_tuple(builder, signature.return_type, addresses)

        return types.UniTuple(types.int64, 3)(arguments), generate

    return expose


def _take_blocks(context: Any, code: Any, stored: Any, function: Any, signature: Any) -> None:
    """Write the body of `code`: a loop around calls of `function`, whose machine code is linked."""
    builder = ir.IRBuilder(code.append_basic_block("entry"))
    address, counter, n, block = code.args
    values = builder.load(builder.inttoptr(address, stored))
    unpacked = cgutils.unpack_tuple(builder, values, len(signature.args) - 2)
    compiled = function.get_compile_result(signature)
    context.add_linking_libs([compiled.library])
    head, body, end = (code.append_basic_block(name) for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    start = builder.atomic_rmw("add", _pointer(builder, counter), block, _ORDER)
    builder.cbranch(builder.icmp_signed("<", start, n), body, end)
    builder.position_at_end(body)
    next_start = builder.add(start, block)
    stop = builder.select(builder.icmp_signed("<", next_start, n), next_start, n)
    call_arguments = (*unpacked, start, stop)
    context.call_internal_no_propagate(builder, compiled.fndesc, signature, call_arguments)
    builder.branch(head)
    builder.position_at_end(end)
    builder.ret_void()

"""Calls of compiled functions by their address.

numba compiles a called function again as a part of each caller. For the steps and the exact optimum
of small problems this takes two seconds of the first fit (`scripts/bench_start.py`).
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def address_of(function: Any, argument_types: tuple) -> int:
    """Compile a function of `numba.njit` for these types and return its address, for `calling`.

    The function's option `no_cfunc_wrapper` has to be off.
    """
    function.compile(argument_types)
    compiled = function.overloads[argument_types]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


def calling(result: Any, *argument_types: tuple) -> Any:
    """Return an intrinsic (address, arguments : tuple) that calls the function at the address.

    result : the type of the function's result
    argument_types : the types for which the function may have been compiled
    """

    def call(typing_context, address, arguments):
        if tuple(arguments.types) not in argument_types:
            return None

        def generate(context, builder, signature, values):
            kinds = [context.get_value_type(kind) for kind in signature.args[1].types]
            function_type = ir.FunctionType(context.get_value_type(result), kinds)
            function = builder.inttoptr(values[0], function_type.as_pointer())
            unpacked = [builder.extract_value(values[1], k) for k in range(len(kinds))]
            return builder.call(function, unpacked)

        return result(types.int64, arguments), generate

    return intrinsic(call)

"""The larger and smaller of two numbers, bits of a float, ones of a word: one instruction each.

numba has `max`, `min` and `view`, but compiles a function for each of them and each type, 20 ms
each: together a twelfth of the first fit of a small problem (`scripts/bench_start.py`).
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _choice(comparison: str) -> Any:
    def choose(typing_context, a, b):
        """Return the larger (or smaller) of two signed integers, or of two floats but not NaN."""
        if a != b or a not in types.signed_domain | types.real_domain:
            return None

        def generate(context, builder, signature, arguments):
            compare = builder.icmp_signed if a in types.signed_domain else builder.fcmp_ordered
            return builder.select(compare(comparison, *arguments), *arguments)

        return a(a, a), generate

    return choose


def _bitcast(old: Any, new: Any, read_as: Any) -> Any:
    def read(typing_context, value):
        """Return the number of the new type that has the same bits."""

        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], read_as)

        return new(old), generate

    return read


def _compile_popcount(typing_context, word):
    """Return the number of ones in an unsigned integer, as an integer of the same type.

    LLVM vectorises the count on every processor (VPOPCNTDQ, or a table of nibbles). NumPy's
    version is `numpy.bitwise_count`, which numba does not compile.
    """

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), generate


larger: Any = intrinsic(_choice(">"))
smaller: Any = intrinsic(_choice("<"))
bits_of: Any = intrinsic(_bitcast(types.float32, types.int32, ir.IntType(32)))
with_bits: Any = intrinsic(_bitcast(types.int32, types.float32, ir.FloatType()))
with_64_bits: Any = intrinsic(_bitcast(types.int64, types.float64, ir.DoubleType()))
popcount: Any = intrinsic(_compile_popcount)

"""Population count: the number of ones in the binary representation of an integer."""

from typing import Any

from numba.extending import intrinsic


def _compile_popcount(typing_context, word):
    """Return the number of ones in an unsigned integer, as an integer of the same type.

    LLVM vectorises it on every processor (VPOPCNTDQ, or a table of nibbles). The version without it
    is `numpy.bitwise_count`, which numba does not compile.
    """

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), generate


popcount: Any = intrinsic(_compile_popcount)

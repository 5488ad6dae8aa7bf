"""LLVM instructions on vectors of sixteen float32: what the vector code of predictions is built of.

LLVM turns a vector of sixteen into what the processor has (one AVX-512 register, two of AVX2, four
of SSE or NEON). Functions append to a builder and give back the value.
"""

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

LANES = 16
# Exponents below give products with coefficients that are denormal, and slow.
_LEAST = -100.0

FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, BITS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)
# Multiply-adds may be fused, but sums keep their order: the same one in all tiles.
FREE = ("contract", "nsz")
# 2^f on [-1/2, 1/2], exact at f = 0; relative error 2e-7.
_POLYNOMIAL = (0.0013264727, 0.0096715127, 0.055507337, 0.24022242, 0.69314698)
_ROUNDING = 12582912.0


def constant(value: float) -> ir.Constant:
    return ir.Constant(VECTOR, [ir.Constant(FLOAT, value)] * LANES)


def integers(value: int) -> ir.Constant:
    return ir.Constant(BITS, [ir.Constant(INT32, value)] * LANES)


def pointer(builder: Any, address: Any, element: ir.Type = FLOAT) -> Any:
    return builder.inttoptr(address, element.as_pointer())


def load(builder: Any, start: Any, offset: Any) -> Any:
    place = builder.bitcast(builder.gep(start, [offset]), VECTOR.as_pointer())
    value = builder.load(place)
    value.align = 4
    return value


def store(builder: Any, value: Any, start: Any, offset: Any) -> None:
    place = builder.bitcast(builder.gep(start, [offset]), VECTOR.as_pointer())
    builder.store(value, place).align = 4


def pick(builder: Any, a: Any, b: Any, places: Iterable[int]) -> Any:
    """Entries of a, and of b behind them, at the given places."""
    mask = [ir.Constant(INT32, place) for place in places]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(mask)), mask))


def splat(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, undefined, integers(0))


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=FREE), c, flags=FREE)


def sum_of(builder: Any, vectors: list[Any]) -> Any:
    """Sum of sixteen vectors: one half of them is added to the other, and so on."""
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [builder.fadd(vectors[i], vectors[i + half]) for i in range(half)]
    return vectors[0]


def sum_within(builder: Any, vector: Any) -> Any:
    """Sum of a vector's entries, in the order of `sum_of`."""
    width = LANES
    while width > 1:
        width //= 2
        low = pick(builder, vector, vector, range(width))
        vector = builder.fadd(low, pick(builder, vector, vector, range(width, 2 * width)))
    return builder.extract_element(vector, ir.Constant(INT32, 0))


def exp2(builder: Any, t: Any) -> Any:
    low = constant(_LEAST)
    # Zero times infinity, of a landmark that fills a block, is not above it either.
    t = builder.select(builder.fcmp_ordered(">", t, low), t, low)
    # Rounds to an integer that stands in the low bits: no flags here, they would undo it.
    shifted = builder.fadd(t, constant(_ROUNDING))
    f = builder.fsub(t, builder.fsub(shifted, constant(_ROUNDING)))
    p = constant(_POLYNOMIAL[0])
    for coefficient in (*_POLYNOMIAL[1:], 1.0):
        p = fused(builder, p, f, constant(coefficient))
    # Added to the exponent of p, which is between 0.7 and 1.5.
    power = builder.shl(builder.bitcast(shifted, BITS), integers(23))
    return builder.bitcast(builder.add(builder.bitcast(p, BITS), power), VECTOR)


def accumulators(builder: Any, count: int, value: float = 0.0) -> list[Any]:
    return [cgutils.alloca_once_value(builder, constant(value)) for _ in range(count)]

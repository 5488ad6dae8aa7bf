"""LLVM instructions on vectors of sixteen float32, the building blocks of `landmark_tiles`.

LLVM lowers a vector of sixteen floats to the registers of the processor: one of AVX-512, two of
AVX2, four of SSE or NEON. Each function appends instructions to an LLVM builder and returns the
resulting LLVM value. Addresses are 64-bit integers, offsets count elements, and nothing is checked.
"""

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

# float32 numbers in a vector register of AVX-512.
LANES = 16
# Guard: smallest exponent of a power of two. Smaller powers would give denormal products with
# coefficients, which are slow; 2^-100 is far below the rounding error of any sum of kernel values.
_SMALLEST_EXPONENT = -100.0

FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, INT_VECTOR = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)
# Fast-math flags: multiply-adds may be fused, but sums keep their order, so that tiles of all
# shapes give the same bits.
FAST_MATH = ("contract", "nsz")
# Coefficients of a polynomial for 2^f on [-1/2, 1/2], highest degree first, without the constant 1,
# which makes it exact at f = 0. Its largest relative error is 9e-8, with rounding in float32 2e-7.
_POLYNOMIAL = (0.0013264727, 0.0096715127, 0.055507337, 0.24022242, 0.69314698)
# 1.5 * 2^23: adding it to a float32 leaves the number, rounded to an integer, in the low bits.
_TO_INTEGER = 12582912.0


def constant(value: float) -> ir.Constant:
    """A vector of sixteen times the same float."""
    return ir.Constant(VECTOR, [ir.Constant(FLOAT, value)] * LANES)


def integers(value: int) -> ir.Constant:
    """A vector of sixteen times the same 32-bit integer."""
    return ir.Constant(INT_VECTOR, [ir.Constant(INT32, value)] * LANES)


def pointer(builder: Any, address: Any, element: ir.Type = FLOAT) -> Any:
    """The integer `address` as a pointer to elements."""
    return builder.inttoptr(address, element.as_pointer())


def load(builder: Any, start: Any, offset: Any) -> Any:
    """The sixteen floats from the element `offset` on; the address need not be aligned."""
    address = builder.bitcast(builder.gep(start, [offset]), VECTOR.as_pointer())
    value = builder.load(address)
    value.align = 4
    return value


def store(builder: Any, value: Any, start: Any, offset: Any) -> None:
    """Write sixteen floats from the element `offset` on; the address need not be aligned."""
    address = builder.bitcast(builder.gep(start, [offset]), VECTOR.as_pointer())
    builder.store(value, address).align = 4


def shuffle(builder: Any, a: Any, b: Any, indices: Iterable[int]) -> Any:
    """A vector of the entries at `indices` in the concatenation of a and b."""
    mask = [ir.Constant(INT32, index) for index in indices]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(mask)), mask))


def splat(builder: Any, scalar: Any) -> Any:
    """A vector of sixteen copies of an LLVM scalar."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first_lane = builder.insert_element(undefined, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first_lane, undefined, integers(0))


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, as one instruction if the processor has it."""
    return builder.fadd(builder.fmul(a, b, flags=FAST_MATH), c, flags=FAST_MATH)


def sum_of(builder: Any, vectors: list[Any]) -> Any:
    """Sum of sixteen vectors by pairwise addition of halves."""
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [builder.fadd(vectors[i], vectors[i + half]) for i in range(half)]
    return vectors[0]


def sum_within(builder: Any, vector: Any) -> Any:
    """Sum of the entries of one vector, in the order of `sum_of` and with the same rounding."""
    width = LANES
    while width > 1:
        width //= 2
        low = shuffle(builder, vector, vector, range(width))
        vector = builder.fadd(low, shuffle(builder, vector, vector, range(width, 2 * width)))
    return builder.extract_element(vector, ir.Constant(INT32, 0))


def exp2(builder: Any, t: Any) -> Any:
    """2^t of each entry, relative error 2e-7; exponents below -100 and NaN count as -100."""
    low = constant(_SMALLEST_EXPONENT)
    # The comparison is false for NaN, the exponent of padding landmarks at an infinite distance.
    t = builder.select(builder.fcmp_ordered(">", t, low), t, low)
    # With fast-math flags, LLVM would cancel the addition and subtraction of the constant.
    shifted = builder.fadd(t, constant(_TO_INTEGER))
    f = builder.fsub(t, builder.fsub(shifted, constant(_TO_INTEGER)))
    p = constant(_POLYNOMIAL[0])
    for coefficient in (*_POLYNOMIAL[1:], 1.0):
        p = multiply_add(builder, p, f, constant(coefficient))
    # Adding the integer to the exponent bits of p, which is in [0.7, 1.5], multiplies by 2^integer.
    power = builder.shl(builder.bitcast(shifted, INT_VECTOR), integers(23))
    return builder.bitcast(builder.add(builder.bitcast(p, INT_VECTOR), power), VECTOR)


def accumulators(builder: Any, count: int) -> list[Any]:
    """Allocate `count` vectors on the stack, filled with zeros; returns their pointers."""
    return [cgutils.alloca_once_value(builder, constant(0.0)) for _ in range(count)]

"""Vector code for local Gaussian machines: sixteen landmarks at a time, as LLVM vectors of float32.

Written as LLVM instructions because a loop over sixteen sums that live in memory was measured three
times slower; LLVM turns a vector of sixteen into what the processor has (one AVX-512 register, two
of AVX2, four of SSE or NEON). Addresses are integers; nothing is checked.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
# Exponents below give products with coefficients that are denormal, and slow.
_LEAST = -100.0

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _BITS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT32, LANES)
# Sums may be taken in any order and as fused multiply-adds.
_FREE = ("reassoc", "contract", "nsz", "nnan", "ninf")
# 2^f on [-1/2, 1/2], as in `kbench.kernels.tiles`.
_POLYNOMIAL = (1.5453163e-4, 1.3390863e-3, 9.6180826e-3, 5.5503571e-2, 2.4022651e-1, 6.9314719e-1)
_ROUNDING = 12582912.0


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [ir.Constant(_FLOAT, value)] * LANES)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_BITS, [ir.Constant(_INT32, value)] * LANES)


def _pointer(builder: Any, address: Any, element: ir.Type = _FLOAT) -> Any:
    return builder.inttoptr(address, element.as_pointer())


def _load(builder: Any, pointer: Any, offset: Any) -> Any:
    place = builder.bitcast(builder.gep(pointer, [offset]), _VECTOR.as_pointer())
    value = builder.load(place)
    value.align = 4
    return value


def _store(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    place = builder.bitcast(builder.gep(pointer, [offset]), _VECTOR.as_pointer())
    builder.store(value, place).align = 4


def _splat(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(one, undefined, _integers(0))


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=_FREE), c, flags=_FREE)


def _sum(builder: Any, vector: Any) -> Any:
    reduce = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR]),
        f"llvm.vector.reduce.fadd.v{LANES}f32",
    )
    return builder.call(reduce, [ir.Constant(_FLOAT, -0.0), vector], fastmath=_FREE)


def _exp2(builder: Any, t: Any) -> Any:
    low = _constant(_LEAST)
    t = builder.select(builder.fcmp_ordered("<", t, low), low, t)
    # Rounds to an integer that stands in the low bits: no flags here, they would undo it.
    shifted = builder.fadd(t, _constant(_ROUNDING))
    f = builder.fsub(t, builder.fsub(shifted, _constant(_ROUNDING)))
    p = _constant(_POLYNOMIAL[0])
    for coefficient in (*_POLYNOMIAL[1:], 1.0):
        p = _fused(builder, p, f, _constant(coefficient))
    power = builder.shl(builder.bitcast(shifted, _BITS), _integers(23))
    scale = builder.bitcast(builder.add(power, _integers(0x3F800000)), _VECTOR)
    return builder.fmul(p, scale, flags=_FREE)


def _accumulators(builder: Any, count: int, value: float = 0.0) -> list[Any]:
    return [cgutils.alloca_once_value(builder, _constant(value)) for _ in range(count)]


def _compile_kernel_block(typing_context, row, features, table, n_features, exponents, values):
    """Kernel values of sixteen landmarks at one row.

    row : address of the row; features : of n_features int32, which of its entries are looked at;
    table : of -width (16) and then, for each of the features, 16 entries of landmarks.
    Writes t_j = -width_j ||x - u_j||^2 to `exponents` and 2^t_j to `values`.
    """

    def generate(context, builder, signature, arguments):
        x, chosen = _pointer(builder, arguments[0]), _pointer(builder, arguments[1], _INT32)
        landmarks, count = _pointer(builder, arguments[2]), arguments[3]
        sums = _accumulators(builder, 4)

        def add(k: Any, total: Any) -> None:
            index = builder.sext(builder.load(builder.gep(chosen, [k])), _INT64)
            value = _splat(builder, builder.load(builder.gep(x, [index])))
            offset = builder.add(builder.mul(k, _INT64(LANES)), _INT64(LANES))
            difference = builder.fsub(value, _load(builder, landmarks, offset))
            square = _fused(builder, difference, difference, builder.load(total))
            builder.store(square, total)

        fours = builder.lshr(count, _INT64(2))
        with cgutils.for_range(builder, fours, intp=_INT64) as loop:
            for r, total in enumerate(sums):
                add(builder.add(builder.mul(loop.index, _INT64(4)), _INT64(r)), total)
        with cgutils.for_range(builder, builder.and_(count, _INT64(3)), intp=_INT64) as loop:
            add(builder.add(builder.mul(fours, _INT64(4)), loop.index), sums[0])
        a, b, c, d = (builder.load(total) for total in sums)
        square = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
        t = builder.fmul(square, _load(builder, landmarks, _INT64(0)))
        _store(builder, t, _pointer(builder, arguments[4]), _INT64(0))
        _store(builder, _exp2(builder, t), _pointer(builder, arguments[5]), _INT64(0))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


def _compile_form_block(typing_context, values, block, coef, n_rows):
    """sum_j (coef_0j + sum_{i <= n_rows} values_i coef_ij) block_j over the sixteen j of a block.

    values : address of n_rows float32; block : of 16 of the values; coef : of (1 + n_rows) x 16.
    """

    def generate(context, builder, signature, arguments):
        value, own = _pointer(builder, arguments[0]), _pointer(builder, arguments[1])
        matrix = _pointer(builder, arguments[2])
        total = cgutils.alloca_once_value(builder, _load(builder, matrix, _INT64(0)))
        with cgutils.for_range(builder, arguments[3], intp=_INT64) as loop:
            factor = _splat(builder, builder.load(builder.gep(value, [loop.index])))
            offset = builder.add(builder.mul(loop.index, _INT64(LANES)), _INT64(LANES))
            row = _load(builder, matrix, offset)
            builder.store(_fused(builder, factor, row, builder.load(total)), total)
        product = builder.fmul(builder.load(total), _load(builder, own, _INT64(0)), flags=_FREE)
        return _sum(builder, product)

    return types.float32(*[types.intp] * 4), generate


def _bound_block(upper: bool) -> Any:
    def compile_bound_block(typing_context, distances, spans, n_landmarks, values):
        """2^-b^2 for the bounds b of sixteen pseudo landmarks.

        distances : address of n_landmarks float32; spans : of n_landmarks x 16. Lower bounds
        max_j |distances_j - spans_j|, or upper ones min_j (distances_j + spans_j).
        """

        def generate(context, builder, signature, arguments):
            distance = _pointer(builder, arguments[0])
            span = _pointer(builder, arguments[1])
            best = cgutils.alloca_once_value(builder, _constant(1e18 if upper else 0.0))
            with cgutils.for_range(builder, arguments[2], intp=_INT64) as loop:
                side = _splat(builder, builder.load(builder.gep(distance, [loop.index])))
                other = _load(builder, span, builder.mul(loop.index, _INT64(LANES)))
                old = builder.load(best)
                if upper:
                    bound = builder.fadd(side, other)
                    closer = builder.fcmp_ordered("<", bound, old)
                else:
                    bound = builder.fsub(side, other)
                    negative = builder.fcmp_ordered("<", bound, _constant(0.0))
                    bound = builder.select(negative, builder.fsub(other, side), bound)
                    closer = builder.fcmp_ordered(">", bound, old)
                builder.store(builder.select(closer, bound, old), best)
            bound = builder.load(best)
            exponent = builder.fmul(bound, builder.fsub(_constant(0.0), bound))
            _store(builder, _exp2(builder, exponent), _pointer(builder, arguments[3]), _INT64(0))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), generate

    return compile_bound_block


kernel_block: Any = intrinsic(_compile_kernel_block)
form_block: Any = intrinsic(_compile_form_block)
lower_block: Any = intrinsic(_bound_block(upper=False))
upper_block: Any = intrinsic(_bound_block(upper=True))

"""Vector code for local Gaussian machines: sixteen landmarks at a time, as LLVM vectors of float32.

Written as LLVM instructions because a loop over sixteen sums that live in memory was measured three
times slower; LLVM turns a vector of sixteen into what the processor has (one AVX-512 register, two
of AVX2, four of SSE or NEON). Addresses are integers; nothing is checked.
"""

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
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
# 2^f on [-1/2, 1/2], exact at f = 0; relative error 2e-7.
_POLYNOMIAL = (0.0013264727, 0.0096715127, 0.055507337, 0.24022242, 0.69314698)
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
    # Added to the exponent of p, which is between 0.7 and 1.5.
    power = builder.shl(builder.bitcast(shifted, _BITS), _integers(23))
    return builder.bitcast(builder.add(builder.bitcast(p, _BITS), power), _VECTOR)


def _accumulators(builder: Any, count: int, value: float = 0.0) -> list[Any]:
    return [cgutils.alloca_once_value(builder, _constant(value)) for _ in range(count)]


def _exponent_tile(n_rows: int, n_blocks: int) -> Any:
    def compile_exponent_tile(typing_context, rows, features, table, n_features, at, slot):
        """Exponents of blocks of sixteen landmarks at rows of their leaf.

        rows : address of the int64 addresses of the rows; features : of n_features int32, which
        entries of a row are looked at; table : by blocks -width (16) and then, for each of the
        features, 16 entries of landmarks. Writes t_j = -width_j ||x - u_j||^2 to the float32 at
        address `at`, `slot` of them further from row to row. Sums stay in registers: what is loaded
        serves all rows, or all blocks. Their order is the same for tiles of any shape.
        """

        def generate(context, builder, signature, arguments):
            rows, features, table, count, at, slot = arguments
            addresses, chosen = _pointer(builder, rows, _INT64), _pointer(builder, features, _INT32)
            numbers, target = _pointer(builder, table), _pointer(builder, at)
            places = (builder.gep(addresses, [_INT64(r)]) for r in range(n_rows))
            points = [_pointer(builder, builder.load(place)) for place in places]
            block = builder.mul(builder.add(count, _INT64(1)), _INT64(LANES))
            starts = [builder.mul(block, _INT64(b)) for b in range(n_blocks)]
            sums = [_accumulators(builder, n_blocks) for _ in range(n_rows)]
            with cgutils.for_range(builder, count, intp=_INT64) as loop:
                index = builder.sext(builder.load(builder.gep(chosen, [loop.index])), _INT64)
                offset = builder.mul(builder.add(loop.index, _INT64(1)), _INT64(LANES))
                entries = [_load(builder, numbers, builder.add(s, offset)) for s in starts]
                for point, totals in zip(points, sums, strict=True):
                    value = _splat(builder, builder.load(builder.gep(point, [index])))
                    for entry, total in zip(entries, totals, strict=True):
                        difference = builder.fsub(value, entry)
                        square = _fused(builder, difference, difference, builder.load(total))
                        builder.store(square, total)
            for r, totals in enumerate(sums):
                for b, (start, total) in enumerate(zip(starts, totals, strict=True)):
                    t = builder.fmul(builder.load(total), _load(builder, numbers, start))
                    place = builder.add(builder.mul(slot, _INT64(r)), _INT64(LANES * b))
                    _store(builder, t, target, place)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return compile_exponent_tile


def _compile_powers(typing_context, exponents, values, n_blocks):
    """values = 2^exponents, n_blocks blocks of sixteen."""

    def generate(context, builder, signature, arguments):
        source, target = _pointer(builder, arguments[0]), _pointer(builder, arguments[1])
        with cgutils.for_range(builder, arguments[2], intp=_INT64) as loop:
            offset = builder.mul(loop.index, _INT64(LANES))
            _store(builder, _exp2(builder, _load(builder, source, offset)), target, offset)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _compile_square_roots(typing_context, numbers, n_blocks):
    """Replace n_blocks blocks of sixteen numbers t <= 0 by sqrt(-t)."""

    def generate(context, builder, signature, arguments):
        target = _pointer(builder, arguments[0])
        root = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.sqrt.v{LANES}f32"
        )
        with cgutils.for_range(builder, arguments[1], intp=_INT64) as loop:
            offset = builder.mul(loop.index, _INT64(LANES))
            t = builder.fsub(_constant(0.0), _load(builder, target, offset))
            _store(builder, builder.call(root, [t]), target, offset)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 2), generate


def _compile_weighted_sum(typing_context, values, coef, n_blocks):
    """sum_j coef_j values_j over n_blocks blocks of sixteen."""

    def generate(context, builder, signature, arguments):
        value, factor = _pointer(builder, arguments[0]), _pointer(builder, arguments[1])
        (total,) = _accumulators(builder, 1)
        with cgutils.for_range(builder, arguments[2], intp=_INT64) as loop:
            offset = builder.mul(loop.index, _INT64(LANES))
            terms = _load(builder, value, offset), _load(builder, factor, offset)
            builder.store(_fused(builder, *terms, builder.load(total)), total)
        return _sum(builder, builder.load(total))

    return types.float32(*[types.intp] * 3), generate


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


# A tile's sums fill the registers: 32 of sixteen numbers, or 16 of eight.
ROWS = 6
BLOCKS = 2 if get_host_cpu_features().get("avx512f") else 1
rows_by_blocks: Any = intrinsic(_exponent_tile(ROWS, BLOCKS))
rows_by_1: Any = intrinsic(_exponent_tile(ROWS, 1))
row_by_blocks: Any = intrinsic(_exponent_tile(1, BLOCKS))
row_by_1: Any = intrinsic(_exponent_tile(1, 1))
powers: Any = intrinsic(_compile_powers)
square_roots: Any = intrinsic(_compile_square_roots)
weighted_sum: Any = intrinsic(_compile_weighted_sum)
form_block: Any = intrinsic(_compile_form_block)
lower_block: Any = intrinsic(_bound_block(upper=False))
upper_block: Any = intrinsic(_bound_block(upper=True))

"""Vector code for Gaussian landmarks: sixteen landmarks, or sixteen rows, at a time.

The code is LLVM instructions because numba keeps the sixteen sums of a plain loop in memory, which
takes three times as long. LLVM translates the vectors for every processor, so one implementation
suffices; `tests/intrinsics/test_landmark_tiles.py` compares each function with NumPy.

All arguments are integers: counts, and addresses of float32 arrays (`rows` is the address of an
array of int64 addresses of rows). The functions check nothing, so callers pass only shapes that
they made or checked. A table of landmarks has a block for every sixteen landmarks: 16 numbers
-width, then 16 entries of the landmarks for each feature. Exponents -width_j ||x - u_j||^2 have
base 2.
"""

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kbench.intrinsics.vector_instructions import (
    FAST_MATH,
    INT32,
    INT64,
    LANES,
    VECTOR,
    accumulators,
    constant,
    exp2,
    load,
    multiply_add,
    pointer,
    shuffle,
    splat,
    store,
    sum_of,
    sum_within,
)


def _exponent_tile(n_rows: int, n_blocks: int) -> Any:
    def compile_exponent_tile(typing_context, rows, features, table, n_features, at, slot):
        """Write the exponents of n_blocks blocks of landmarks at n_rows rows.

        features : address of the int32 indices of the n_features features that the landmarks have.
        at : address of the float32 output, in which the rows are `slot` numbers apart. Sums stay in
        registers, so that an entry of the table is loaded once for all rows, and a feature of a row
        once for all blocks. Tiles of every shape sum in the same order.
        """

        def generate(context, builder, signature, arguments):
            rows, features, table, count, at, slot = arguments
            addresses, indices = pointer(builder, rows, INT64), pointer(builder, features, INT32)
            landmarks, target = pointer(builder, table), pointer(builder, at)
            row_pointers = (builder.gep(addresses, [INT64(r)]) for r in range(n_rows))
            points = [pointer(builder, builder.load(row)) for row in row_pointers]
            block = builder.mul(builder.add(count, INT64(1)), INT64(LANES))
            starts = [builder.mul(block, INT64(b)) for b in range(n_blocks)]
            sums = [accumulators(builder, n_blocks) for _ in range(n_rows)]
            with cgutils.for_range(builder, count, intp=INT64) as loop:
                index = builder.sext(builder.load(builder.gep(indices, [loop.index])), INT64)
                offset = builder.mul(builder.add(loop.index, INT64(1)), INT64(LANES))
                entries = [load(builder, landmarks, builder.add(s, offset)) for s in starts]
                for point, totals in zip(points, sums, strict=True):
                    value = splat(builder, builder.load(builder.gep(point, [index])))
                    for entry, total in zip(entries, totals, strict=True):
                        difference = builder.fsub(value, entry)
                        square = multiply_add(builder, difference, difference, builder.load(total))
                        builder.store(square, total)
            for r, totals in enumerate(sums):
                for b, (start, total) in enumerate(zip(starts, totals, strict=True)):
                    t = builder.fmul(builder.load(total), load(builder, landmarks, start))
                    output = builder.add(builder.mul(slot, INT64(r)), INT64(LANES * b))
                    store(builder, t, target, output)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return compile_exponent_tile


def _compile_powers(typing_context, exponents, values, n_blocks):
    """values = 2^exponents, for n_blocks blocks of sixteen."""

    def generate(context, builder, signature, arguments):
        source, target = pointer(builder, arguments[0]), pointer(builder, arguments[1])
        with cgutils.for_range(builder, arguments[2], intp=INT64) as loop:
            offset = builder.mul(loop.index, INT64(LANES))
            store(builder, exp2(builder, load(builder, source, offset)), target, offset)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _compile_square_roots(typing_context, numbers, n_blocks):
    """Replace n_blocks blocks of sixteen numbers t <= 0 by sqrt(-t)."""

    def generate(context, builder, signature, arguments):
        target = pointer(builder, arguments[0])
        root = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(VECTOR, [VECTOR]), f"llvm.sqrt.v{LANES}f32"
        )
        with cgutils.for_range(builder, arguments[1], intp=INT64) as loop:
            offset = builder.mul(loop.index, INT64(LANES))
            t = builder.fsub(constant(0.0), load(builder, target, offset))
            store(builder, builder.call(root, [t]), target, offset)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 2), generate


def _compile_weighted_sum(typing_context, values, coef, n_blocks):
    """Return sum_j coef_j values_j over n_blocks blocks of sixteen."""

    def generate(context, builder, signature, arguments):
        value, factor = pointer(builder, arguments[0]), pointer(builder, arguments[1])
        (total,) = accumulators(builder, 1)
        with cgutils.for_range(builder, arguments[2], intp=INT64) as loop:
            offset = builder.mul(loop.index, INT64(LANES))
            terms = load(builder, value, offset), load(builder, factor, offset)
            builder.store(multiply_add(builder, *terms, builder.load(total)), total)
        return sum_within(builder, builder.load(total))

    return types.float32(*[types.intp] * 3), generate


def _compile_weighted_difference(typing_context, values, origin, coef, n_blocks):
    """Return sum_j coef_j (values_j - origin_j) over n_blocks blocks of sixteen."""

    def generate(context, builder, signature, arguments):
        value, origin_pointer, factor = (pointer(builder, address) for address in arguments[:3])
        (total,) = accumulators(builder, 1)
        with cgutils.for_range(builder, arguments[3], intp=INT64) as loop:
            offset = builder.mul(loop.index, INT64(LANES))
            difference = builder.fsub(
                load(builder, value, offset), load(builder, origin_pointer, offset)
            )
            weight = load(builder, factor, offset)
            builder.store(multiply_add(builder, difference, weight, builder.load(total)), total)
        return sum_within(builder, builder.load(total))

    return types.float32(*[types.intp] * 4), generate


def _compile_form_block(typing_context, values, block, coef, n_rows):
    """Return sum_j (coef_0j + sum_{1 <= i <= n_rows} values_{i-1} coef_ij) block_j, j < 16.

    values : n_rows numbers; block : sixteen numbers; coef : (1 + n_rows, 16). The sum is one block
    of columns of the quadratic form that evaluates monomials c_i c_j.
    """

    def generate(context, builder, signature, arguments):
        value, column = pointer(builder, arguments[0]), pointer(builder, arguments[1])
        matrix = pointer(builder, arguments[2])
        total = cgutils.alloca_once_value(builder, load(builder, matrix, INT64(0)))
        with cgutils.for_range(builder, arguments[3], intp=INT64) as loop:
            factor = splat(builder, builder.load(builder.gep(value, [loop.index])))
            offset = builder.add(builder.mul(loop.index, INT64(LANES)), INT64(LANES))
            row = load(builder, matrix, offset)
            builder.store(multiply_add(builder, factor, row, builder.load(total)), total)
        product = builder.fmul(
            builder.load(total), load(builder, column, INT64(0)), flags=FAST_MATH
        )
        return sum_within(builder, product)

    return types.float32(*[types.intp] * 4), generate


def _bound_block(upper: bool) -> Any:
    def compile_bound_block(typing_context, distances, spans, n_landmarks, values):
        """Write 2^-b^2 for the bounds b of sixteen pseudo landmarks.

        distances : n_landmarks numbers, from the row to the landmarks; spans : (n_landmarks, 16),
        from the landmarks to the pseudo landmarks. The lower bounds of the triangle inequality are
        max_j |distances_j - spans_j|, the upper ones min_j (distances_j + spans_j).
        """

        def generate(context, builder, signature, arguments):
            distance = pointer(builder, arguments[0])
            span = pointer(builder, arguments[1])
            # 1e18 is above every distance, and its square is finite in float32.
            best = cgutils.alloca_once_value(builder, constant(1e18 if upper else 0.0))
            with cgutils.for_range(builder, arguments[2], intp=INT64) as loop:
                to_row = splat(builder, builder.load(builder.gep(distance, [loop.index])))
                to_pseudo = load(builder, span, builder.mul(loop.index, INT64(LANES)))
                old = builder.load(best)
                if upper:
                    bound = builder.fadd(to_row, to_pseudo)
                    is_tighter = builder.fcmp_ordered("<", bound, old)
                else:
                    bound = builder.fsub(to_row, to_pseudo)
                    is_negative = builder.fcmp_ordered("<", bound, constant(0.0))
                    bound = builder.select(is_negative, builder.fsub(to_pseudo, to_row), bound)
                    is_tighter = builder.fcmp_ordered(">", bound, old)
                builder.store(builder.select(is_tighter, bound, old), best)
            bound = builder.load(best)
            exponent = builder.fmul(bound, builder.fsub(constant(0.0), bound))
            store(builder, exp2(builder, exponent), pointer(builder, arguments[3]), INT64(0))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), generate

    return compile_bound_block


def _compile_transposed(typing_context, rows, n_features, at):
    """Write sixteen rows of n_features >= 16 features feature by feature, sixteen numbers each."""

    def generate(context, builder, signature, arguments):
        addresses, count = pointer(builder, arguments[0], INT64), arguments[1]
        target = pointer(builder, arguments[2])
        row_pointers = (builder.gep(addresses, [INT64(r)]) for r in range(LANES))
        points = [pointer(builder, builder.load(row)) for row in row_pointers]

        def write_square(first):
            columns = _transpose(builder, [load(builder, point, first) for point in points])
            for k, column in enumerate(columns):
                feature = builder.add(first, INT64(k))
                store(builder, column, target, builder.mul(feature, INT64(LANES)))

        n_before = builder.udiv(builder.sub(count, INT64(1)), INT64(LANES))
        with cgutils.for_range(builder, n_before, intp=INT64) as loop:
            write_square(builder.mul(loop.index, INT64(LANES)))
        # The last square of sixteen features may overlap the one before.
        write_square(builder.sub(count, INT64(LANES)))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _transpose(builder: Any, vectors: list[Any]) -> list[Any]:
    """Columns of a 16 x 16 matrix of rows: a round swaps entries (i, j + s) and (i + s, j)."""
    for shift in (8, 4, 2, 1):
        exchanged = list(vectors)
        for i in range(LANES):
            if i & shift:
                continue
            a, b = vectors[i], vectors[i | shift]
            first = [j + LANES - shift if j & shift else j for j in range(LANES)]
            second = [j + LANES if j & shift else j + shift for j in range(LANES)]
            exchanged[i] = shuffle(builder, a, b, first)
            exchanged[i | shift] = shuffle(builder, a, b, second)
        vectors = exchanged
    return vectors


def _kernel_tile(n_vectors: int, n_at_once: int) -> Any:
    def compile_kernel_tile(typing_context, points, table, n_features, values, slot):
        """Kernel values of a block of sixteen landmarks at n_vectors times sixteen rows.

        points : the rows as `transposed` writes them. For each landmark, sixteen numbers are
        written, one for each row; the next sixteen rows begin `slot` numbers further. Sums of
        n_at_once landmarks stay in registers.
        """

        def generate(context, builder, signature, arguments):
            rows, landmarks = (pointer(builder, address) for address in arguments[:2])
            count, target, slot = arguments[2], pointer(builder, arguments[3]), arguments[4]
            stride = builder.mul(count, INT64(LANES))
            starts = [builder.mul(stride, INT64(v)) for v in range(n_vectors)]

            def broadcast(start, j):
                return splat(
                    builder, builder.load(builder.gep(landmarks, [builder.add(start, INT64(j))]))
                )

            with cgutils.for_range(builder, INT64(LANES // n_at_once), intp=INT64) as group:
                first = builder.mul(group.index, INT64(n_at_once))
                sums = [accumulators(builder, n_vectors) for _ in range(n_at_once)]
                with cgutils.for_range(builder, count, intp=INT64) as loop:
                    offset = builder.mul(loop.index, INT64(LANES))
                    row_entries = [load(builder, rows, builder.add(s, offset)) for s in starts]
                    column = builder.add(builder.add(offset, INT64(LANES)), first)
                    for j, totals in enumerate(sums):
                        entry = broadcast(column, j)
                        for value, total in zip(row_entries, totals, strict=True):
                            difference = builder.fsub(value, entry)
                            square = multiply_add(
                                builder, difference, difference, builder.load(total)
                            )
                            builder.store(square, total)
                for j, totals in enumerate(sums):
                    scale = broadcast(first, j)
                    row = builder.mul(builder.add(first, INT64(j)), INT64(LANES))
                    for v, total in enumerate(totals):
                        t = builder.fmul(builder.load(total), scale)
                        output = builder.add(builder.mul(slot, INT64(v)), row)
                        store(builder, exp2(builder, t), target, output)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return compile_kernel_tile


def _compile_weighted_sums(typing_context, values, coef, n_blocks, sums):
    """Write sum_j coef_j values_j of sixteen rows, with values from `compile_kernel_tile`."""

    def generate(context, builder, signature, arguments):
        value, factor = pointer(builder, arguments[0]), pointer(builder, arguments[1])
        # LANES partial sums, added in the order of `weighted_sum`, give the same bits.
        totals = accumulators(builder, LANES)
        with cgutils.for_range(builder, arguments[2], intp=INT64) as loop:
            first = builder.mul(loop.index, INT64(LANES))
            for j, total in enumerate(totals):
                landmark = builder.add(first, INT64(j))
                weight = splat(builder, builder.load(builder.gep(factor, [landmark])))
                term = load(builder, value, builder.mul(landmark, INT64(LANES)))
                builder.store(multiply_add(builder, term, weight, builder.load(total)), total)
        result = sum_of(builder, [builder.load(total) for total in totals])
        store(builder, result, pointer(builder, arguments[3]), INT64(0))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


# Shapes of tiles, set by hand: larger ones load fewer numbers for each product, and their sums must
# leave registers for operands. With AVX-512, 8 to 16 of 32 registers (of sixteen floats) hold sums,
# else 8 to 12 of 16 (of eight floats).
_HAS_AVX512 = bool(get_host_cpu_features().get("avx512f"))
ROWS, BLOCKS = 6, 2 if _HAS_AVX512 else 1
VECTORS = 4 if _HAS_AVX512 else 2
rows_by_blocks: Any = intrinsic(_exponent_tile(ROWS, BLOCKS))
rows_by_1: Any = intrinsic(_exponent_tile(ROWS, 1))
row_by_blocks: Any = intrinsic(_exponent_tile(1, BLOCKS))
row_by_1: Any = intrinsic(_exponent_tile(1, 1))
powers: Any = intrinsic(_compile_powers)
square_roots: Any = intrinsic(_compile_square_roots)
weighted_sum: Any = intrinsic(_compile_weighted_sum)
weighted_difference: Any = intrinsic(_compile_weighted_difference)
form_block: Any = intrinsic(_compile_form_block)
lower_block: Any = intrinsic(_bound_block(upper=False))
upper_block: Any = intrinsic(_bound_block(upper=True))
transposed: Any = intrinsic(_compile_transposed)
kernels_of_vectors: Any = intrinsic(_kernel_tile(VECTORS, 4 if _HAS_AVX512 else 2))
kernels_of_one_vector: Any = intrinsic(_kernel_tile(1, 8 if _HAS_AVX512 else 4))
weighted_sums: Any = intrinsic(_compile_weighted_sums)

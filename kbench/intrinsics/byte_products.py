"""Inner products of unsigned with signed bytes by the instruction `vpdpbusd` of AVX-512 VNNI.

The instruction multiplies 64 unsigned bytes by 64 signed bytes and adds each group of four products
to one of 16 integers of 32 bits, several times as fast as float32 multiply-adds. LLVM does not emit
the instruction for a plain loop. On processors without the instruction, the plain loop
`plain_dot_products` computes the same results.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

# Numbers of 32 bits in a vector register of AVX-512.
LANES = 16
# A tile is ROWS rows against VECTORS vectors of 16 columns: of the 32 registers of AVX-512, 24 hold
# its sums and VECTORS the columns.
ROWS = 6
VECTORS = 4
COLUMNS = VECTORS * LANES


@cache
def has_vnni() -> bool:
    """Whether numba compiles for a processor with AVX-512 VNNI."""
    from numba.core.registry import cpu_target

    # The last entry of numba's key of a compile target lists the processor's features.
    return "+avx512vnni" in cpu_target.target_context.codegen().magic_tuple()[2]


def dot_products(left, row, panels, first, dots):
    """Write dots[64 r + j] = <left[row + r], column j of a panel>, for 6 rows r and 64 columns j.

    left : (b, w) uint32. Four unsigned bytes each.
    row : int64. The first of the six rows.
    panels : flat uint32. Four signed bytes each; a panel (w, 64) begins at the position `first`.
    first : int64
    dots : (6 * 64,) int32, overwritten
    """
    plain_dot_products(left, row, panels, first, dots)


@overload(dot_products)
def _choose_dot_products(left, row, panels, first, dots):
    implementation = vnni_dot_products if has_vnni() else plain_dot_products

    def chosen(left, row, panels, first, dots):
        implementation(left, row, panels, first, dots)

    return chosen


@njit(nogil=True)
def plain_dot_products(left, row, panels, first, dots):
    """`dot_products` as a plain loop."""
    for k in range(dots.shape[0]):
        dots[k] = 0
    for r in range(ROWS):
        for k in range(left.shape[1]):
            word = left[row + r, k]
            for j in range(COLUMNS):
                column, total = panels[first + k * COLUMNS + j], np.int32(0)
                for shift in range(0, 32, 8):
                    unsigned = np.int32((word >> np.uint32(shift)) & np.uint32(255))
                    signed = np.int32((column >> np.uint32(shift)) & np.uint32(255))
                    total += unsigned * (signed - np.int32(256 if signed > 127 else 0))
                dots[r * COLUMNS + j] += total


def _compile_vnni(typing_context, left, row, panels, first, dots):
    """`dot_products` with `vpdpbusd`, for processors that have the instruction."""

    def generate(context, builder, signature, arguments):
        def array(position):
            kind = signature.args[position]
            return context.make_array(kind)(context, builder, arguments[position])

        int32 = ir.IntType(32)
        vector = ir.VectorType(int32, LANES)
        data, n_words = array(0).data, cgutils.unpack_tuple(builder, array(0).shape)[1]
        index = n_words.type
        multiply_add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), "llvm.x86.avx512.vpdpbusd.512"
        )
        rows = [
            builder.gep(data, [builder.mul(builder.add(arguments[1], index(r)), n_words)])
            for r in range(ROWS)
        ]
        panel = builder.gep(array(2).data, [arguments[3]])
        entry = builder.block
        loop = builder.append_basic_block("words")
        end = builder.append_basic_block("end")
        builder.branch(loop)

        builder.position_at_end(loop)
        k = builder.phi(index)
        sums = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
        columns = []
        for c in range(VECTORS):
            offset = builder.add(builder.mul(k, index(COLUMNS)), index(c * LANES))
            address = builder.bitcast(builder.gep(panel, [offset]), vector.as_pointer())
            columns.append(builder.load(address, align=4))
        undefined = ir.Constant(vector, ir.Undefined)
        zeros = ir.Constant(vector, [0] * LANES)
        new_sums = []
        for r in range(ROWS):
            word = builder.load(builder.gep(rows[r], [k]))
            word = builder.insert_element(undefined, word, int32(0))
            word = builder.shuffle_vector(word, undefined, zeros)
            totals = sums[r * VECTORS : (r + 1) * VECTORS]
            new_sums += [
                builder.call(multiply_add, [total, word, column])
                for total, column in zip(totals, columns, strict=True)
            ]
        after = builder.add(k, index(1))
        k.add_incoming(index(0), entry)
        k.add_incoming(after, loop)
        for before, total in zip(sums, new_sums, strict=True):
            before.add_incoming(zeros, entry)
            before.add_incoming(total, loop)
        builder.cbranch(builder.icmp_signed("<", after, n_words), loop, end)

        builder.position_at_end(end)
        out = array(4).data
        for position, total in enumerate(new_sums):
            address = builder.gep(out, [index(position * LANES)])
            builder.store(total, builder.bitcast(address, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(left, row, panels, first, dots), generate


vnni_dot_products: Any = intrinsic(_compile_vnni)

"""Compiled tiles of Gaussian kernels between points on a lattice of bytes.

    k(x, z) = 2^-(unit D),    D = sum_k (x_k - z_k)^2 = |x|^2 + |z|^2 - 2 <x, z>,    0 <= x_k <= 255

`vpdpbusd` (AVX-512 VNNI) multiplies 64 unsigned bytes by 64 signed ones and adds them in fours to
16 integers of 32 bits: the integer D is exact, at several times the speed of float32 multiply-adds.
The right points are made signed by taking 128 from each, <x, z> = <x, z - 128> + 128 sum_k x_k.

Import only where numba compiles for a processor with that instruction: the module is compiled when
it is imported.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from kbench.kernels.handing_over import SHARED, shared
from kbench.kernels.lattice import BytePoints, nanoseconds_of_bytes
from kbench.kernels.threads import in_parts
from kbench.kernels.tiles import power_of_two

_LANES = 16
# Rows and vectors of 16 columns whose sums stay in registers: 24 of the 32.
_ROWS = 6
_VECTORS = 4
_COLUMNS = _VECTORS * _LANES
# Panels of _COLUMNS that are copied together: long runs of memory.
_PANELS = 4
_WIDTH = _PANELS * _COLUMNS
_SIGN_BITS = 0x80808080


def _compile_dot_products(typing_context, left, row, panels, first, dots):
    """dots[16 (4 r + c) + l] = <left[row + r], column 16 c + l of the panel>, as bytes.

    left : (b, w) uint32, unsigned; panels : flat uint32, signed, of which a panel (w, 64) begins at
    `first`; dots : (6 * 64,) int32. The loop is written out because the compiler finds neither the
    instruction nor the blocking.
    """

    def generate(context, builder, signature, arguments):
        def array(position):
            kind = signature.args[position]
            return context.make_array(kind)(context, builder, arguments[position])

        int32 = ir.IntType(32)
        vector = ir.VectorType(int32, _LANES)
        data, n_words = array(0).data, cgutils.unpack_tuple(builder, array(0).shape)[1]
        index = n_words.type
        multiply_add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            "llvm.x86.avx512.vpdpbusd.512",
        )
        rows = [
            builder.gep(data, [builder.mul(builder.add(arguments[1], index(r)), n_words)])
            for r in range(_ROWS)
        ]
        panel = builder.gep(array(2).data, [arguments[3]])
        entry = builder.block
        loop = builder.append_basic_block("words")
        end = builder.append_basic_block("end")
        builder.branch(loop)

        builder.position_at_end(loop)
        k = builder.phi(index)
        sums = [builder.phi(vector) for _ in range(_ROWS * _VECTORS)]
        columns = []
        for c in range(_VECTORS):
            place = builder.add(builder.mul(k, index(_COLUMNS)), index(c * _LANES))
            address = builder.bitcast(builder.gep(panel, [place]), vector.as_pointer())
            columns.append(builder.load(address, align=4))
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(vector, [0] * _LANES)
        added = []
        for r in range(_ROWS):
            word = builder.load(builder.gep(rows[r], [k]))
            word = builder.insert_element(undefined, word, int32(0))
            word = builder.shuffle_vector(word, undefined, everywhere)
            totals = sums[r * _VECTORS : (r + 1) * _VECTORS]
            added += [
                builder.call(multiply_add, [total, word, column])
                for total, column in zip(totals, columns, strict=True)
            ]
        after = builder.add(k, index(1))
        k.add_incoming(index(0), entry)
        k.add_incoming(after, loop)
        for before, total in zip(sums, added, strict=True):
            before.add_incoming(everywhere, entry)
            before.add_incoming(total, loop)
        builder.cbranch(builder.icmp_signed("<", after, n_words), loop, end)

        builder.position_at_end(end)
        out = array(4).data
        for position, total in enumerate(added):
            place = builder.gep(out, [index(position * _LANES)])
            builder.store(total, builder.bitcast(place, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(left, row, panels, first, dots), generate


_dot_products: Any = intrinsic(_compile_dot_products)

# Not "reassoc": it would undo the rounding in power_of_two.
_FLAGS = {"contract", "nsz", "nnan", "ninf"}


@njit(fastmath=_FLAGS, nogil=True)
def _copy_columns(right, first, width, panels):
    """Panels, (w, 64) each, of columns first .. first + width - 1 of right : (w, n), signed."""
    n_words = right.shape[0]
    for k in range(n_words):
        source = right[k, first : first + width]
        for panel in range(_PANELS):
            start = panel * _COLUMNS
            count = min(_COLUMNS, width - start)
            place = (panel * n_words + k) * _COLUMNS
            target = panels[place : place + _COLUMNS]
            for j in range(count):
                target[j] = source[start + j] ^ np.uint32(_SIGN_BITS)


@njit(fastmath=_FLAGS, nogil=True)
def _write(dots, shift, squares, unit, out):
    """out[j] = 2^-(unit D_j)"""
    number, shift = out.dtype.type, np.int32(shift)
    for j in range(out.shape[0]):
        out[j] = power_of_two(-unit * number(np.int32(shift + squares[j] - 2 * dots[j])))


@njit(fastmath=_FLAGS, nogil=True)
def _add(dots, shift, squares, unit, coef, partial):
    """partial[j] += coef 2^-(unit D_j)"""
    number, shift = partial.dtype.type, np.int32(shift)
    for j in range(partial.shape[0]):
        exponent = -unit * number(np.int32(shift + squares[j] - 2 * dots[j]))
        partial[j] += coef * power_of_two(exponent)


def _signature(real: types.Type) -> Any:
    """Inputs may be read-only (memory maps of other processes); one compilation serves both."""

    def array(dtype: types.Type, ndim: int) -> types.Type:
        return types.Array(dtype, ndim, "C", readonly=True)

    side = (array(types.uint32, 2), array(types.int32, 1))
    outputs = (types.float64[::1], real[:, ::1])
    return types.void(*side, *side, real, array(real, 1), *outputs, *SHARED)


@njit(fastmath=_FLAGS)
def _some_tiles(left, shifts, right, squares, unit, coef, values, block, start, stop):
    """Kernel values of columns start .. stop-1: summed into `values`, or written into `block`.

    left : (b, w), shifts : (b,), |x|^2 - 256 sum_k x_k, b a multiple of 6; right : (w, n),
    squares : (n,), |z|^2. With coef : (b,), values[j] += sum_i coef_i k_ij; with coef empty,
    block : (a, n), a <= b.
    """
    n_words = left.shape[1]
    panels = np.zeros(n_words * _WIDTH, np.uint32)
    dots, partial = np.empty(_ROWS * _COLUMNS, np.int32), np.empty(_COLUMNS, coef.dtype)
    for begin in range(start, stop, _WIDTH):
        _copy_columns(right, begin, min(stop - begin, _WIDTH), panels)
        for first in range(begin, min(stop, begin + _WIDTH), _COLUMNS):
            last = min(stop, first + _COLUMNS)
            norms = squares[first:last]
            panel = (first - begin) * n_words
            for i in range(0, left.shape[0], _ROWS):
                _dot_products(left, i, panels, panel, dots)
                if coef.shape[0]:
                    sums, out = partial[: last - first], values[first:last]
                    for j in range(sums.shape[0]):
                        sums[j] = 0
                    for r in range(_ROWS):
                        row = dots[r * _COLUMNS : (r + 1) * _COLUMNS]
                        _add(row, shifts[i + r], norms, unit, coef[i + r], sums)
                    for j in range(sums.shape[0]):
                        out[j] += sums[j]
                else:
                    for r in range(min(_ROWS, block.shape[0] - i)):
                        row = dots[r * _COLUMNS : (r + 1) * _COLUMNS]
                        _write(row, shifts[i + r], norms, unit, block[i + r, first:last])


_share_tiles = shared(_some_tiles)


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit([_signature(types.float32), _signature(types.float64)], nogil=True, cache=True)
def _tiles(left, shifts, right, squares, unit, coef, values, block, n, part, boxes):
    arguments = (left, shifts, right, squares, unit, coef, values, block)
    _share_tiles(arguments, n, part, boxes)


def fill(A: BytePoints, B: BytePoints, unit: float, out: np.ndarray) -> None:
    """Write 2^-(unit D) between points A (a of them) and B (n) into out : (a, n), C-contiguous."""
    none, nothing = np.empty(0, out.dtype), np.empty(0)
    _in_parts(*_left(A), B, out.dtype.type(unit), none, nothing, out)


def accumulate(
    A: BytePoints, B: BytePoints, unit: float, coef: np.ndarray, out: np.ndarray
) -> None:
    """Add sum_i coef_i 2^-(unit D_ij), i of A, j of B, to out : (n,) float64.

    coef : (a,) of the type in which values are computed: six products are added in it, then in
    float64.
    """
    left, shifts = _left(A)
    weights = np.zeros(len(left), coef.dtype)
    weights[: len(coef)] = coef
    _in_parts(left, shifts, B, coef.dtype.type(unit), weights, out, np.empty((0, 0), coef.dtype))


def _in_parts(left: np.ndarray, shifts: np.ndarray, B: BytePoints, *arguments: Any) -> None:
    n = B.shape[0]
    cost = n * len(left) * nanoseconds_of_bytes(len(B.words))
    sides = (left, shifts, B.words, B.squares)
    in_parts(_tiles, *sides, *arguments, n=n, nanoseconds=cost, multiple=_COLUMNS)


def _left(A: BytePoints) -> tuple[np.ndarray, np.ndarray]:
    """Points as rows, and what each adds to its D; their number a multiple of 6."""
    n = A.shape[0]
    words = np.zeros((-(-n // _ROWS) * _ROWS, len(A.words)), np.uint32)
    words[:n] = A.words.T
    shifts = np.zeros(len(words), np.int32)
    shifts[:n] = A.squares - 256 * A.totals
    return words, shifts

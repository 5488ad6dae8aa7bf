"""Views of a contiguous section of a flat array. numba's slices and `reshape` take ten times as
long to compile, and functions without reference counting cannot return them."""

from typing import Any

from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


def _array(context: Any, builder: Any, flat: tuple, start: Any, shape: list, result: Any) -> Any:
    """Return the array of type `result` at element `start` of `flat`, a (type, value) pair."""
    source = make_array(flat[0])(context, builder, flat[1])
    array = make_array(result)(context, builder)
    size = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(result.dtype))
    )
    strides = [builder.mul(n, size) for n in shape[1:]] + [size]
    populate_array(
        array,
        data=builder.gep(source.data, [start]),
        shape=shape,
        strides=strides,
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def _matrix_in(typing_context, flat, start, n, m):
    """Return `flat[start : start + n * m]`, contiguous, as an (n, m) array; nothing is checked."""
    result = types.Array(flat.dtype, 2, "C")

    def generate(context, builder, signature, values):
        flat, start, *shape = values
        return _array(context, builder, (signature.args[0], flat), start, shape, result)

    return result(flat, types.intp, types.intp, types.intp), generate


def _between(typing_context, flat, first, last):
    """Return `flat[first:last]`, contiguous, or None for None; nothing is checked."""

    def generate(context, builder, signature, values):
        flat, first, last = values
        if signature.return_type == types.none:
            return flat
        shape = [builder.sub(last, first)]
        return _array(context, builder, (signature.args[0], flat), first, shape, flat_type)

    flat_type = flat
    return flat(flat, types.intp, types.intp), generate


matrix_in: Any = intrinsic(_matrix_in)
between: Any = intrinsic(_between)

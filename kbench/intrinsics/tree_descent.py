"""Moves eight rows at a time down a tree of comparisons of single features.

The current nodes of the eight rows stay in registers, and the loads for the rows overlap; a loop in
numba has the nodes in memory and is not unrolled. The instructions exist on every processor; the
version in NumPy is in `tests/intrinsics/test_tree_descent.py`. Nothing is checked: children must be
nodes, and features must be columns of the rows. A row with a NaN goes left.
"""

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Rows that descend together: 64-bit numbers in a vector register of AVX-512.
ROWS = 8


def _compile_descend(typing_context, rows, stride, nodes, n_nodes, depth, reached):
    """Write to the address `reached` the int64 indices of the nodes that ROWS rows reach.

    rows : address of the first row of float32, `stride` bytes from row to row.
    nodes : address of (3, n_nodes) 32-bit numbers: feature, float32 threshold, left child; the
        right child follows the left one. A leaf is its own left child, with the threshold inf.
    depth : most comparisons on the way to a leaf, at least 1.
    """

    def generate(context, builder, signature, arguments):
        first, stride, table, count, depth, target = arguments
        i64, i32, f32 = ir.IntType(64), ir.IntType(32), ir.FloatType()
        features = builder.inttoptr(table, i32.as_pointer())
        children = builder.gep(features, [builder.mul(count, i64(2))])
        thresholds = builder.bitcast(builder.gep(features, [count]), f32.as_pointer())
        starts = [builder.add(first, builder.mul(stride, i64(r))) for r in range(ROWS)]
        points = [builder.inttoptr(start, f32.as_pointer()) for start in starts]
        states = [cgutils.alloca_once_value(builder, i64(0)) for _ in points]
        levels = cgutils.alloca_once_value(builder, depth)

        def step_down(point, state):
            # Return 0 only at a leaf, which is its own child.
            node = builder.load(state)
            feature = builder.zext(builder.load(builder.gep(features, [node])), i64)
            entry = builder.load(builder.gep(point, [feature]))
            threshold = builder.load(builder.gep(thresholds, [node]))
            right = builder.zext(builder.fcmp_ordered(">", entry, threshold), i64)
            child = builder.zext(builder.load(builder.gep(children, [node])), i64)
            following = builder.add(child, right)
            builder.store(following, state)
            return builder.xor(following, node)

        body = builder.append_basic_block("levels")
        done = builder.append_basic_block("done")
        builder.branch(body)
        builder.position_at_end(body)
        node_changes = [
            step_down(point, state) for point, state in zip(points, states, strict=True)
        ]
        has_moved = builder.icmp_unsigned("!=", reduce(builder.or_, node_changes), i64(0))
        remaining = builder.sub(builder.load(levels), i64(1))
        builder.store(remaining, levels)
        has_levels_left = builder.icmp_unsigned("!=", remaining, i64(0))
        builder.cbranch(builder.and_(has_moved, has_levels_left), body, done)
        builder.position_at_end(done)
        output = builder.inttoptr(target, i64.as_pointer())
        for r, state in enumerate(states):
            builder.store(builder.load(state), builder.gep(output, [i64(r)]))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


descend: Any = intrinsic(_compile_descend)

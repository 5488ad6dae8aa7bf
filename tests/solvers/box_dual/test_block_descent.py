"""Working sets: the worst violators, and half of the last working set at its positions."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.solvers.box_dual.block_descent import largest, working_set

FAR = -1e300


@settings(max_examples=100)
@given(
    n=st.integers(1, 6000),
    k=st.integers(1, 64),
    far=st.floats(0.0, 1.0),
    levels=st.sampled_from([1, 3, 10**6]),
    seed=st.integers(0, 9),
)
def test_the_largest_values_are_found_where_most_values_are_equal(n, k, far, levels, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, levels, n) / levels
    values[rng.random(n) < far] = FAR
    k = min(k, n)
    found = largest(values, k)
    assert len(set(found.tolist())) == k
    np.testing.assert_array_equal(np.sort(values[found]), np.sort(values)[-k:])


@pytest.mark.parametrize("coupled", [False, True])
def test_half_of_a_working_set_keeps_its_positions(coupled):
    rng = np.random.default_rng(0)
    choose = functools.partial(working_set, size=512, coupled=coupled)
    last, new = np.empty(0, np.intp), slice(0, 0)
    for turn in range(6):
        e = rng.normal(size=3000)
        up, down = (
            np.where(rng.random(3000) < 0.5, e, FAR),
            np.where(rng.random(3000) < 0.5, -e, FAR),
        )
        W, fresh = choose(up.copy(), down.copy(), 0.0, last, new)
        assert len(set(W.tolist())) == 512
        if turn == 0:
            assert fresh == slice(0, 512)
        else:
            kept = slice(256, 512) if fresh.start == 0 else slice(0, 256)
            assert fresh != new
            np.testing.assert_array_equal(W[kept], last[kept])
        others = np.setdiff1d(np.arange(3000), W)
        if coupled:
            # Each half of the new points has as many of the worst upwards as downwards.
            for half in np.split(W[fresh], 2):
                assert np.count_nonzero(up[half] >= up[others].max()) >= len(half) // 2
                assert np.count_nonzero(down[half] >= down[others].max()) >= len(half) // 2
        else:
            worst = np.maximum(up, down)
            assert worst[W[fresh]].min() >= worst[others].max()
        last, new = W, fresh
    few, all_of_them = choose(e[:100], -e[:100], 0.0, last, new)
    np.testing.assert_array_equal(few, np.arange(100))
    assert all_of_them == slice(0, 100)

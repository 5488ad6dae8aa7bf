"""Counter-based numbers: the published generator, the right distributions, every block alone."""

import numpy as np
import pytest
from scipy import stats

from kbench.approximation.seeded import philox

WORD = 2**32 - 1
BLOCKS = ["uniforms", "normals"]


@pytest.mark.parametrize(
    ("index", "stream", "block", "key", "words"),
    [
        (0, 0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (WORD, WORD, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x243F6A88,
            0x85A308D3,
            0x0370734413198A2E,
            0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers_of_random123(index, stream, block, key, words):
    found = philox.four_words(*map(np.uint64, (index, stream, block, key)))
    assert " ".join(f"{int(word):08x}" for word in found) == words


@pytest.mark.parametrize(("name", "cdf"), [("uniforms", "uniform"), ("normals", "norm")])
def test_distribution(name, cdf):
    out = np.empty(200_001, np.float32)
    getattr(philox, name)(7, 0, 3, out)
    assert stats.kstest(out, cdf).pvalue > 1e-3
    assert len(np.unique(out)) > 0.98 * len(out)


@pytest.mark.parametrize("name", BLOCKS)
def test_seeds_streams_and_blocks_are_independent(name):
    keys = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 0, 2**40)]
    values = np.empty((len(keys), 50_000), np.float32)
    for key, row in zip(keys, values, strict=True):
        getattr(philox, name)(*key, row)
    halves = values.reshape(2 * len(keys), -1)
    correlation = np.corrcoef(halves) - np.eye(len(halves))
    assert np.abs(correlation).max() < 5 / np.sqrt(halves.shape[1])


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1001])
def test_every_entry_is_written(name, n):
    out = np.full(n, np.nan, np.float32)
    getattr(philox, name)(1, 0, 0, out)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("largest", [0.5, 100.0, 1e6, 1e12])
def test_cosines_and_sines_of_turns(largest):
    turns = np.random.default_rng(0).uniform(-largest, largest, (50, 101)).astype(np.float32)
    turns[0, :3] = 0.0, 0.25, -0.5
    out = np.hstack([turns, np.full_like(turns, np.nan)])
    philox.cosines_and_sines(out, np.float32(3.0))
    exact = 2 * np.pi * np.remainder(turns.astype(np.float64), 1.0)
    np.testing.assert_allclose(out, 3.0 * np.hstack([np.cos(exact), np.sin(exact)]), atol=1e-6)

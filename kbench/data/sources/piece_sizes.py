"""Numbers of bytes that readers hold at a time, and a context manager that changes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PieceSizes:
    """Sizes of the pieces in which files are read and rows are prepared."""

    # Bytes that are decompressed, hashed or parsed at a time (1 MiB). More bytes need more memory,
    # fewer bytes more calls; `scripts/bench_data_chunks.py` shows both.
    text: int = 1 << 20
    # Bytes of a block of rows in float64 (32 MiB). Larger blocks need more memory, smaller ones
    # more calls. Set by hand.
    block: int = 32 << 20


_STANDARD = PieceSizes()
_SIZES = ContextVar("sizes", default=_STANDARD)


def piece_sizes() -> PieceSizes:
    """The sizes in effect."""
    return _SIZES.get()


@contextmanager
def changed_piece_sizes(**sizes: int) -> Iterator[None]:
    """Use other sizes in a `with` block; results do not depend on them.

    **sizes : Attributes of `PieceSizes`
    """
    token = _SIZES.set(replace(_SIZES.get(), **sizes))
    try:
        yield
    finally:
        _SIZES.reset(token)

"""Parameters of estimators that take a kernel by its name, and their constraints."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

import kbench.kernels.functions  # noqa: F401  fills the table
from kbench.kernels.kernel import Kernel, parameters
from kbench.kernels.named import make_kernel
from kbench.kernels.registry import KERNELS, kernel_names

# Capabilities of kernels, as a message about a refused name calls them.
_CAPABILITY_PHRASES = {
    "of_rows": "computed from rows",
    "positive_semidefinite": "positive semidefinite",
    "exponential": "exponential in a distance",
    "spectrum": "shift-invariant with a known spectral density",
}


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters:
    """A base class of estimators: the kernel's name and its parameters."""

    kernel: str | Callable[[Any, Any], np.ndarray] = "rbf"
    gamma: Any = "scale"  # float, "scale" or "auto"; (d,) where every feature may have its own
    degree: int = 3
    coef0: float = 0.0

    def _make_kernel(self, X: Any) -> Kernel:
        """The kernel; the rows X : (n, d) determine a gamma of "scale" or "auto"."""
        return make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


class KernelName(StrOptions):
    """The name of a kernel with the given capabilities, which an error message lists."""

    def __init__(self, capabilities: Iterable[str]) -> None:
        self.capabilities = tuple(capabilities)
        super().__init__(set(kernel_names(*self.capabilities)))

    def __str__(self) -> str:
        words = " and ".join(_CAPABILITY_PHRASES[capability] for capability in self.capabilities)
        names = ", ".join(repr(name) for name in sorted(self.options))
        return f"one of {names}" + (f" (the kernels that are {words})" if words else "")


def kernel_constraints(*capabilities: str, function: bool = False) -> dict[str, list[Any]]:
    """Return the constraints of `kernel` and of the parameters of the kernels it may name.

    capabilities : Attributes of `Kernel` that must be true, such as "of_rows" and
        "positive_semidefinite".
    function : Whether `kernel` may also be a callable of two blocks of rows
    """
    name = KernelName(capabilities)
    constraints: dict[str, list[Any]] = {"kernel": [name, *([callable] if function else [])]}
    for kernel in name.options:
        for parameter, values in parameters(KERNELS[kernel]).items():
            closed = "neither" if values.open or values.low is None else "left"
            interval = Interval(Integral if values.whole else Real, values.low, None, closed=closed)
            automatic = [StrOptions({"scale", "auto"})] if values.automatic else []
            constraints[parameter] = [*automatic, interval]
    return constraints

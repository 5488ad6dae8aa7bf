"""Cost of a prediction in floating-point work, and the check of the rows' width.

The unit of cost is one inner product of two rows, the cost of a linear model. An
exponential, a cosine or a hyperbolic tangent counts as ten multiplications, so a value k(x, z) of
the Gaussian kernel costs one product and one exponential.
"""

from typing import Any

# Multiplications that an exponential, a cosine or a hyperbolic tangent counts as. This convention
# makes the column `prediction_cost` independent of the machine. Set by hand.
TRANSCENDENTAL = 10.0


def expansion_flops(n_centres: int, n_outputs: int, n_features: int) -> float:
    """Cost of a row for m functions in the span of s centres: s (1 + (10 + m) / d)."""
    return n_centres * (1.0 + (TRANSCENDENTAL + n_outputs) / n_features)


class CountedPrediction:
    """Mixin for estimators whose `_machine` has a method `flops`.

    Attributes
    ----------
    prediction_flops_ : float. Cost of predicting one row, in units of a linear model's prediction.
    """

    _machine: Any
    n_features_in_: int

    @property
    def prediction_flops_(self) -> float:
        return float(self._machine.flops(self.n_features_in_))


def require_width(X: Any, n_features: int | None) -> None:
    """Raise a ValueError unless the rows X have `n_features` (None: any number) features.

    Machines check the width at every call, because compiled code relies on it and an estimator from
    a file may state another number than its model has.
    """
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, the model expects {n_features}")

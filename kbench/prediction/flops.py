"""What a prediction costs by count: in products of two rows, as a linear model has one of.

An exponential, a cosine or a hyperbolic tangent counts as ten multiplications; a value k(x, z) of
the Gaussian kernel is one product and one exponential.
"""

from typing import Any

TRANSCENDENTAL = 10.0


def expansion_flops(n_centres: int, n_outputs: int, n_features: int) -> float:
    """Of a row, m functions in the span of s centres: s (1 + (10 + m) / d)."""
    return n_centres * (1.0 + (TRANSCENDENTAL + n_outputs) / n_features)


class CountedPrediction:
    """Mixin of estimators whose `_machine` has `flops`.

    Attributes
    ----------
    prediction_flops_ : float
        Of a row, in units of a linear model's prediction.
    """

    _machine: Any
    n_features_in_: int

    @property
    def prediction_flops_(self) -> float:
        return float(self._machine.flops(self.n_features_in_))

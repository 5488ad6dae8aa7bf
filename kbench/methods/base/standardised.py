"""Standardised rows as arrays, under any `transform_output` of scikit-learn's configuration."""

from typing import Any

import numpy as np
import sklearn
from sklearn.preprocessing import StandardScaler


def standardised_rows(scaler: StandardScaler, X: Any) -> np.ndarray:
    """Rows X : (u, d) transformed by a fitted scaler; (u, d), also under `transform_output`."""
    with sklearn.config_context(transform_output="default"):
        rows: np.ndarray = scaler.transform(X)
    return rows

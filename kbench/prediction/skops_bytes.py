"""Fitted estimators of scikit-learn as bytes written by skops: no pickle, only trusted classes.

skops is installed by the extra `models`; models of kbench are stored without it.
"""

import io
import zipfile
from typing import Any

import numpy as np

from kbench.errors import ModelError, quoted, with_type

# Classes inside scikit-learn's baselines that skops does not trust by default.
_TRUSTED = frozenset(
    {
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.EuclideanDistance",
        "sklearn.metrics._dist_metrics.EuclideanDistance32",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._dist_metrics.ManhattanDistance64",
        "sklearn.metrics._dist_metrics.MinkowskiDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
    }
)


def require_skops() -> Any:
    """The module `skops.io`; a ModelError if it is not installed."""
    try:
        import skops.io
    except ImportError:
        raise ModelError(
            "models of scikit-learn are stored by skops, which is not installed; "
            "pip install 'kbench[models]'"
        ) from None
    return skops.io


def to_skops(value: Any, where: str) -> np.ndarray:
    """Encode an estimator, or an object inside one, as (n,) uint8; `where` names it in errors."""
    skops = require_skops()
    try:
        content = skops.dumps(value)
        untrusted = set(skops.get_untrusted_types(data=content)) - _TRUSTED
    except Exception as error:  # attributes of an estimator may raise anything
        raise ModelError(f"{where}: skops cannot hold it ({quoted(with_type(error))})") from None
    if untrusted:
        raise ModelError(f"{where} holds {min(untrusted)}, which the open model format does not")
    return np.frombuffer(content, np.uint8)


def from_skops(content: np.ndarray) -> Any:
    """Decode bytes of `to_skops`; a ModelError if they are damaged or name other classes."""
    skops = require_skops()
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ModelError("the bytes of skops should be one-dimensional uint8")
    data = content.tobytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ModelError("the bytes of skops are compressed, should be stored")
        untrusted = set(skops.get_untrusted_types(data=data)) - _TRUSTED
        if untrusted:
            raise ModelError(f"names the class {min(untrusted)}, which no model may hold")
        return skops.loads(data, trusted=sorted(_TRUSTED))
    except ModelError:
        raise
    except Exception as error:  # skops raises whatever the classes inside raise
        raise ModelError(f"the bytes of skops are damaged ({quoted(with_type(error))})") from None

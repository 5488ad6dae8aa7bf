"""Prediction of one fitted SVC by scikit-learn, scikit-learn-intelex and `KernelExpansion`.

    python scripts/bench_prediction.py [DATASET ...]       (default: ijcnn1 a9a)

The expansion uses the support vectors and coefficients of SVC; scikit-learn-intelex, if it is
installed, fits its own. One thread; `cpu` is the median of three CPU seconds for all test rows,
`times` its ratio to the expansion, and `deviation` the largest difference between the expansion and
SVC's decision function. A data set whose files are missing is named and skipped.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from bench_fast_prediction import load
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kbench.errors import DataNotFoundError
from kbench.kernels import KernelMatrix, make_kernel
from kbench.prediction import KernelExpansion, prediction_dtype

REPEATS = 3  # timed calls, of which the median counts


def seconds(function: Callable[[], Any]) -> float:
    """Median CPU seconds of REPEATS calls."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return median(times)


def compare(name: str) -> None:
    """Print a line for each machine."""
    data, uses = load(name)
    C, gamma = uses["svm"]["C"], uses["svm"]["gamma"]
    new = data.X_test
    svc = SVC(C=C, gamma=gamma, cache_size=2000).fit(data.X_train, data.y_train)
    kernel = KernelMatrix(make_kernel("rbf", data.X_train, gamma=gamma), data.X_train)
    coef = svc.dual_coef_.toarray().T if sp.issparse(svc.dual_coef_) else svc.dual_coef_.T
    machine = KernelExpansion(kernel, svc.support_, coef, prediction_dtype(kernel, coef))
    machine(new[:10])
    peers = {"SVC": seconds(lambda: svc.predict(new))}
    try:
        from sklearnex.svm import SVC as IntelexSVC

        intelex = IntelexSVC(C=C, gamma=gamma).fit(data.X_train, data.y_train)
        intelex.predict(new[:10])
        peers["intelex"] = seconds(lambda: intelex.predict(new))
    except ImportError:
        print("scikit-learn-intelex is not installed: pip install kbench[intelex]")
    ours = seconds(lambda: machine(new))
    values = machine(new)[:, 0] + svc.intercept_
    deviation = np.abs(values - svc.decision_function(new)).max()
    for label, spent in (peers | {"KernelExpansion": ours}).items():
        print(f"{name:11} {label:16} {spent:9.3f} {spent / ours:7.1f}", end="")
        print(f" {deviation:10.1e}" if label == "KernelExpansion" else "", flush=True)


def main() -> None:
    print("data        machine              cpu   times  deviation")
    for name in sys.argv[1:] or ("ijcnn1", "a9a"):
        try:
            compare(name)
        except DataNotFoundError as error:
            print(error)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    numba.set_num_threads(1)
    with threadpool_limits(1):
        main()

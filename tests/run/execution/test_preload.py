"""What the fork server imports, and so what every worker begins with."""

import json
import os

from harness import python

from kbench.run.execution.preload import ESTIMATORS_VARIABLE, estimators_named

CODE = """
import sys
import kbench.run.execution.preloaded
print(*sorted({"numba", "pandas", "scipy.stats._stats_py", "sklearn.metrics"} & set(sys.modules)))
from sklearn.utils import fixes
print(fixes._mode([1, 1, 2]).mode[0])
import scipy, scipy.stats
from scipy import stats
print(scipy.stats is stats is sys.modules["scipy.stats"], stats.norm.cdf(0.0))
"""


def loaded(words):
    """Of some heavy modules those that the server has, and how scipy.stats behaves afterwards."""
    environment = {**os.environ, ESTIMATORS_VARIABLE: json.dumps(estimators_named(words))}
    return python("-c", CODE, env=environment, check=True).stdout.splitlines()


def test_the_server_of_a_kernel_machine_imports_neither_pandas_nor_scipy_stats():
    modules, mode, statistics = loaded(["method=meka,kernel_svc"])
    assert modules == "numba"
    assert mode == "1"
    assert statistics == "True 0.5"


def test_the_server_of_a_method_of_scikit_learn_imports_no_numba():
    modules, *_ = loaded(["method=svc"])
    assert not {"numba", "pandas"} & set(modules.split())

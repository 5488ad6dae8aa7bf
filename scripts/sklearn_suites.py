"""Runs scikit-learn's own tests with kbench's classes in the place of its own.

The tests are those of the installed scikit-learn: `sklearn/svm/tests/test_svm.py`,
`sklearn/svm/tests/test_sparse.py` and `sklearn/tests/test_kernel_ridge.py`, with the seeds 0 and 1
and both dtypes. `SVC`, `SVR` and `KernelRidge` are replaced before the tests are imported. Each
test passes, or stands in `DELIBERATE` with the reason why kbench is otherwise.

    python scripts/sklearn_suites.py [pytest's options]

prints the tests that fail and are not in the list, those in the list that pass now, and a line of
totals; its exit status is 1 if there are any of either. A test that fails on scikit-learn's classes
too is no matter of ours: with `--theirs` nothing is replaced.
"""

import os
import sys
from typing import Any

import pytest

SUITES = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse")
SUITES += ("sklearn.tests.test_kernel_ridge",)

# Test function (all its parameters) -> why kbench is deliberately otherwise. At most 12.
DELIBERATE: dict[str, str] = {
    "test_libsvm_parameters": "coefficients differ from LIBSVM's by 6e-9, where the test asks for "
    "equality: steps of problems of few rows are float32, their residuals float64",
    "test_precomputed": "the same coefficients are asked for equality",
    "test_tweak_params": "sets the private `_dual_coef_` of a fitted estimator; prediction keeps "
    "the coefficients in a layout of its own",
    "test_svc_raises_error_internal_representation": "sets the private `_n_support`, of which no "
    "memory access depends here",
    "test_bad_input": "sparse rows are predicted by a machine of dense ones, and dense rows by one "
    "of sparse ones; SVC refuses the first",
    "test_svr_errors": "a kernel function whose values have the wrong shape is refused by `fit` "
    "already, where SVR refuses it in `predict`",
    "test_probability_raises_futurewarning": "`probability` stays, because it has sigmoids of "
    "pairs of classes and of regions, which CalibratedClassifierCV lacks; that works as well",
    "test_svc_nusvc_probA_probB_deprecated": "the attributes probA_ and probB_, which scikit-learn "
    "removes in 1.11, never existed here",
}


def put_ours_in_their_place() -> None:
    """Replace scikit-learn's classes by kbench's where tests look for them."""
    import sklearn.kernel_ridge
    import sklearn.svm

    from kbench.methods import KernelRidge, KernelSVC, KernelSVR

    for module, name, ours in (
        (sklearn.svm, "SVC", KernelSVC),
        (sklearn.svm, "SVR", KernelSVR),
        (sklearn.kernel_ridge, "KernelRidge", KernelRidge),
    ):
        setattr(module, name, ours)


class Results:
    """pytest plugin that collects the outcome of every test."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}  # test -> last line of its error

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = report.nodeid.rpartition("/")[2]
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[test] = str(report.longrepr if crash is None else crash.message)
        elif report.when == "call" and report.passed:
            self.passed.append(test)


def function_of(test: str) -> str:
    """Name of the test's function, without file and parameters."""
    return test.partition("::")[2].partition("[")[0]


def report(results: Results) -> int:
    """Print what differs from the list. Returns the exit status."""
    new = {test: why for test, why in results.failed.items() if function_of(test) not in DELIBERATE}
    still = {function_of(test) for test in results.failed}
    known = {function_of(test) for test in [*results.failed, *results.passed]}
    for test, why in new.items():
        print(f"FAILS  {test}: {(why.splitlines() or [''])[0][:200]}")
    for name in DELIBERATE:
        if name not in still:
            state = "passes now" if name in known else "is gone"
            print(f"LISTED, but {state}: {name}")
    n_listed = len(results.failed) - len(new)
    print(
        f"{len(results.passed)} of {len(results.passed) + len(results.failed)} pass; "
        f"{n_listed} fail of {len(still & set(DELIBERATE))} listed functions, {len(new)} others"
    )
    return int(bool(new) or not set(DELIBERATE) <= still or not results.passed)


def main(arguments: list[str]) -> int:
    os.environ.setdefault("SKLEARN_TESTS_GLOBAL_RANDOM_SEED", "0-1")
    os.environ.setdefault("SKLEARN_RUN_FLOAT32_TESTS", "1")
    if "--theirs" not in arguments:
        put_ours_in_their_place()
    options = [argument for argument in arguments if argument != "--theirs"]
    results = Results()
    quiet = ["-q", "--no-header", "--tb=no", "--show-capture=no", "-p", "no:cacheprovider"]
    quiet += ["-c", os.devnull, "--rootdir", os.path.dirname(os.path.dirname(pytest.__file__))]
    pytest.main([*quiet, *options, "--pyargs", *SUITES], plugins=[results])
    return report(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

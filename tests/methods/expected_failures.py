"""Checks of scikit-learn that an estimator cannot pass, and the mathematical reason of each."""

_WEIGHTS = (
    "gamma='scale' is, as in SVC, defined by the variance of the rows as given; and the dual is "
    "solved to tol=1e-3, so weighted and repeated rows agree to about 1e-3, not to 1e-7"
)

EXPECTED_FAILURES = {
    "KernelSVC": {
        "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
    },
    "DCSVC": {
        "check_sample_weight_equivalence_on_dense_data": (
            "clusters are found on a sample of the rows as given; " + _WEIGHTS
        ),
        "check_sample_weight_equivalence_on_sparse_data": (
            "clusters are found on a sample of the rows as given; " + _WEIGHTS
        ),
    },
}

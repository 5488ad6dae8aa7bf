"""Checks of scikit-learn that an estimator cannot pass, and the mathematical reason of each."""

_WEIGHTS = (
    "gamma='scale' is, as in SVC, defined by the variance of the rows as given; and the dual is "
    "solved to a tolerance, so weighted and repeated rows agree to about that, not to 1e-7"
)

_FLOAT32 = (
    "features are float32, and how a matrix product rounds them depends on the number of rows: "
    "values agree to about 1e-6, not to 1e-7"
)

EXPECTED_FAILURES = {
    "DoublySGDClassifier": {"check_methods_subset_invariance": _FLOAT32},
    "DoublySGDRegressor": {"check_methods_subset_invariance": _FLOAT32},
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
    **{
        name: {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
        for name, reason in {
            "LLSVM": "landmarks are found on the rows as given; " + _WEIGHTS,
            "LTPU": "centres are found on the rows as given; " + _WEIGHTS,
            "FastfoodSVC": "passes are in random order over the rows as given; " + _WEIGHTS,
            "RandomFourierSVC": "passes are in random order over the rows as given; " + _WEIGHTS,
            **dict.fromkeys(
                ("NORMA", "KernelSDCA", "PegasosClassifier", "SDCAClassifier"),
                "passes are in random order over the rows as given; " + _WEIGHTS,
            ),
            "SparsePrimalSVC": (
                "candidates for the basis are drawn among the rows as given; " + _WEIGHTS
            ),
        }.items()
    },
}

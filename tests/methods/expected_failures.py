"""Checks of scikit-learn that an estimator cannot pass, and the mathematical reason of each."""

_WEIGHTS = (
    "gamma='scale' is, as in SVC, defined by the variance of the rows as given; and the dual is "
    "solved to a tolerance, so weighted and repeated rows agree to about that, not to 1e-7"
)

_EQUIVALENCE = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)

_FLOAT32 = (
    "features are float32, and how a matrix product rounds them depends on the number of rows: "
    "values agree to about 1e-6, not to 1e-7"
)

EXPECTED_FAILURES = (
    {
        name: dict.fromkeys(_EQUIVALENCE, f"{reason}{_WEIGHTS}")
        for name, reason in {
            "KernelNuSVC": "",
            "KernelNuSVR": "",
            "KernelOneClassSVM": "",
            "KernelQuantileRegressor": "",
            "KernelSVC": "",
            "KernelSVR": "",
            "TunedKernelSVC": "parameters are chosen on folds of the rows as given; ",
            "TunedKernelSVR": "parameters are chosen on folds of the rows as given; ",
            "DCSVC": "clusters are found on a sample of the rows as given; ",
            "CascadeSVC": "parts are drawn from the rows as given; ",
            "LaSVC": "rows are visited as given; ",
            "LinearizedSVC": "features are chosen, and passes ordered, on the rows as given; ",
            "SparsePrimalSVC": "candidates for the basis are drawn among the rows as given; ",
            "HSSADMMClassifier": (
                "the kernel matrix of the rows as given is shifted by beta, which a repeated row "
                "gets twice; "
            ),
            "AESVC": "representatives are chosen among the rows as given; ",
            "ReducedSetSVC": "pre-images are sought from support vectors as given; ",
            "RACQPClassifier": "blocks are drawn among the rows as given; ",
            "DCPredClassifier": "the tree is grown on the rows as given; ",
            "DCPredTrainedClassifier": "gradients are those of batches of the rows as given; ",
            **dict.fromkeys(
                ("NORMA", "KernelSDCA", "PegasosClassifier", "SDCAClassifier"),
                "passes are in random order over the rows as given; ",
            ),
            "SubsampleSVC": "the sample is drawn from the rows as given; ",
            "KernelRidgeClassifier": "",
            "ApproximateRidge": "clusters and landmarks are chosen among the rows as given; ",
            "ApproximateRidgeClassifier": "clusters are found among the rows as given; ",
        }.items()
    }
    | {name: {} for name in ("DivisionBound", "KernelSpectrum", "SupportCurves")}
    | {
        "LDKLClassifier": dict.fromkeys(
            _EQUIVALENCE, "the problem is not convex, and its batches are drawn from the rows given"
        )
    }
    | {
        name: dict.fromkeys(
            _EQUIVALENCE, "batches are drawn from the rows as given, as are width and centre"
        )
        | {"check_methods_subset_invariance": _FLOAT32}
        for name in ("DoublySGDClassifier", "DoublySGDRegressor")
    }
)
EXPECTED_FAILURES["KernelNuSVC"]["check_class_weight_classifiers"] = (
    "weights of 1,000 and 0.0001 make nu=0.5 infeasible; the check exempts NuSVC, which ignores "
    "weights of classes, by its name"
)

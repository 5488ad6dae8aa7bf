"""Keys and names of other tools, and the keys and names of kbench that mean the same."""

from collections.abc import Collection

# Key of another tool, or one that users guess -> the key of kbench that does the same.
_SYNONYMS = {
    **dict.fromkeys(("timeout", "limits.timeout", "limits.time", "time_limit"), "limits.wall_s"),
    **dict.fromkeys(("memory", "limits.memory", "memory_limit"), "limits.memory_mb"),
    **dict.fromkeys(("n_jobs", "jobs", "workers"), "parallel.jobs, limits.threads"),
    **dict.fromkeys(("threads", "limits.n_jobs"), "limits.threads"),
    **dict.fromkeys(("cv", "folds"), "tune.cv"),
    **dict.fromkeys(("random_state", "method.seed", "method.random_state"), "seed"),
    **dict.fromkeys(("test_size", "dataset.test_size"), "dataset.split.test_fraction"),
    **dict.fromkeys(("dataset.rows", "dataset.subsample", "dataset.n"), "dataset.split.n_train"),
    **dict.fromkeys(("dataset.split.test_size", "dataset.test"), "dataset.split.test_fraction"),
    **dict.fromkeys(("target", "label", "dataset.label"), "dataset.source.columns.target"),
    **dict.fromkeys(
        ("dataset.target.name", "dataset.target.column"), "dataset.source.columns.target"
    ),
    **dict.fromkeys(("file", "path", "data", "dataset.file"), "dataset.path"),
    **dict.fromkeys(("delimiter", "sep", "dataset.sep"), "dataset.source.columns.delimiter"),
    **dict.fromkeys(("score", "scoring", "sort", "sort_by", "order"), "metric"),
    **dict.fromkeys(("output", "save", "to"), "out"),
    **dict.fromkeys(("folder", "dir", "results", "output_dir"), "results_dir"),
    **dict.fromkeys(("paper", "papers", "claims"), "table"),
    **dict.fromkeys(("tune.folds", "tune.n_splits"), "tune.cv"),
    **dict.fromkeys(("tune.n_trials", "tune.trials", "tune.n_iter", "tune.budget"), "tune.runs"),
    **dict.fromkeys(("tune.timeout", "tune.time", "tune.wall_s"), "tune.seconds"),
    **dict.fromkeys(("tune.scoring", "tune.score", "tune.metrics"), "tune.metric"),
}

# Word that is no name of kbench -> names of methods that users mean by the word.
METHOD_SYNONYMS = {
    **dict.fromkeys(("svm", "libsvm", "rbf_svm", "kernel_svm"), ("svc", "kernel_svc")),
    **dict.fromkeys(("logistic", "logreg", "logistic_regression", "linear_svm"), ("linear_svc",)),
    **dict.fromkeys(("rf", "forest", "randomforest"), ("random_forest",)),
    **dict.fromkeys(("gbm", "gbdt", "hgb", "xgboost", "lightgbm"), ("hist_gradient_boosting",)),
    **dict.fromkeys(("nn", "neural_network"), ("mlp",)),
    **dict.fromkeys(("kernel_ridge", "gp", "gaussian_process"), ("krr",)),
    **dict.fromkeys(("rff", "random_features"), ("rks",)),
}

# Keys of reports that runs do not have.
REPORT_KEYS = ("metric", "columns", "format", "out", "settings", "trials", "reference", "table")


def synonym(key: str, known: Collection[str] | None = None) -> str:
    """The hint of a message on a key for which kbench has another word; '' if there is none.

    known : the keys of a command other than a run or a plan; by default the keys of a run
    """
    nearest_key = _SYNONYMS.get(key, key)
    if known is None and nearest_key in REPORT_KEYS:
        remark = "; metrics=[NAME] adds a score to a run" if nearest_key == "metric" else ""
        hint = "" if nearest_key == key else f" (nearest: {nearest_key})"
        return f"{hint}, which is a key of `kbench report`{remark}"
    if known is None and key == "show":
        return ", which is a key of `kbench plan`"
    applies = nearest_key != key and (known is None or nearest_key in known)
    return f" (nearest: {nearest_key})" if applies else ""

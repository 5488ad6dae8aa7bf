"""Keys as other tools call them, and what they are called here."""

# Words of other tools, and of other keys -> the key that does the same here.
_SYNONYMS = {
    **dict.fromkeys(("timeout", "limits.timeout", "limits.time", "time_limit"), "limits.wall_s"),
    **dict.fromkeys(("memory", "limits.memory", "memory_limit"), "limits.memory_mb"),
    **dict.fromkeys(("n_jobs", "jobs", "workers"), "parallel.jobs, limits.threads"),
    **dict.fromkeys(("threads", "limits.n_jobs"), "limits.threads"),
    **dict.fromkeys(("cv", "folds"), "tune.cv"),
    **dict.fromkeys(("random_state", "method.seed", "method.random_state"), "seed"),
    **dict.fromkeys(("test_size", "dataset.test_size"), "dataset.split.test_fraction"),
    **dict.fromkeys(("dataset.split.test_size", "dataset.test"), "dataset.split.test_fraction"),
    **dict.fromkeys(("target", "label", "dataset.label"), "dataset.source.columns.target"),
    **dict.fromkeys(("file", "path", "data", "dataset.file"), "dataset.path"),
    **dict.fromkeys(("delimiter", "sep", "dataset.sep"), "dataset.source.columns.delimiter"),
}

_OF_REPORTS = ("metric", "columns")


def synonym(key: str) -> str:
    """What a message adds on a key that kbench calls otherwise; '' for any other."""
    if key in _OF_REPORTS:
        more = "; metrics=[NAME] adds a score to a run" if key == "metric" else ""
        return f", which is a key of `kbench report`{more}"
    return f" (nearest: {_SYNONYMS[key]})" if key in _SYNONYMS else ""

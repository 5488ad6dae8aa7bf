"""Presets: named sets of default parameters, such as the settings of a paper's experiments.

A preset supplies defaults only. A parameter that presets set has the default None, which means "use
the preset's value"; any other value was chosen by the user and is kept. The tables stand here, in a
module that imports nothing, because the planner fills the parameters of a row from them before
any numerical code is loaded (`meta.presets` in a method's YAML file names the table).
"""

from collections.abc import Mapping
from typing import Any

# Preset name (None: no preset) -> parameter -> value. Every preset of a table sets the same
# parameters.
Table = Mapping[str | None, Mapping[str, Any]]

# "paper": Si, Hsieh and Dhillon (JMLR 18, 2017), with the eps of the experiments in the ICML 2014
# version. "released": the authors' program, where `rank` is that of the whole matrix.
_MEKA_DEFAULT = {
    "landmarks": "kmeans",
    "basis_sampling": "diagonal",
    "link": "galerkin",
    "rho": 2.0,
    "pinv_cut": 0.03,
    "eps": 0.0,
    "zero_fraction": 0.0,
    "rank_strategy": "same",
    "n_samples": 20000,
    "kmeans_iter": 10,
}
_MEKA_PAPER = _MEKA_DEFAULT | {
    "landmarks": "uniform",
    "link": "sampled",
    "pinv_cut": 1e-6,
    "eps": 0.1,
}
MEKA: Table = {
    None: _MEKA_DEFAULT,
    "paper": _MEKA_PAPER,
    "released": _MEKA_PAPER
    | {"eps": 0.0, "zero_fraction": 0.1, "rank_strategy": "total", "n_samples": 10000},
}

# DC-SVM of local machines. None: ours. A looser tolerance is up to 7 times as fast, and the
# machines are approximate anyway. "paper": Hsieh, Si and Dhillon (ICML 2014), section 4: two levels
# of 256 and 64 clusters. "released": the authors' program, whose early mode uses k-means.
_DCSVM_LOCAL_DEFAULT = {
    "n_clusters": 64,
    "n_levels": 2,
    "branching": 4,
    "partition": "kmeans",
    "n_samples": 1000,
    "tol": 0.1,
}
DCSVM_LOCAL: Table = {
    None: _DCSVM_LOCAL_DEFAULT,
    "paper": _DCSVM_LOCAL_DEFAULT | {"partition": "kernel_kmeans", "tol": 1e-3},
    "released": _DCSVM_LOCAL_DEFAULT | {"n_samples": 5000, "tol": 0.01},
}

# DC-SVM to the exact machine. "paper": Algorithm 1 with k = 4, l_max = 4, m = 1000. None: ours,
# with a loose tolerance of the levels, which only provide a starting point. "released": the
# authors' program, which trains 256, 64 and 16 clusters on one sample.
_DCSVM_PAPER = {
    "n_clusters": 4,
    "n_levels": 4,
    "branching": 4,
    "partition": "kernel_kmeans",
    "n_samples": 1000,
    "tol": 1e-3,
    "level_tol": 1e-3,
}
DCSVM: Table = {
    None: _DCSVM_PAPER | {"level_tol": 0.1},
    "paper": _DCSVM_PAPER,
    "released": _DCSVM_PAPER
    | {"n_clusters": 16, "n_levels": 3, "n_samples": 2000, "tol": 0.01, "level_tol": 0.01},
}

# Tables by the name that `meta.presets` of a method's YAML file gives.
TABLES: dict[str, Table] = {"dcsvm": DCSVM, "dcsvm_local": DCSVM_LOCAL, "meka": MEKA}


def resolve(preset: str | None, table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all parameters that a preset table covers.

    Parameters
    ----------
    preset : a key of `table`
    table : preset -> parameter -> default
    given : the user's values; None where the user chose nothing. Other names are ignored.

    Returns
    -------
    dict
        The user's value where it is not None, otherwise the preset's.

    Raises
    ------
    ValueError
        The table has no such preset.
    """
    if preset not in table:
        names = ", ".join(str(name) for name in table)
        raise ValueError(f"preset is {preset!r}, should be one of: {names}")
    return {
        name: default if given.get(name) is None else given[name]
        for name, default in table[preset].items()
    }

"""Fast evaluation of fitted kernel machines."""

from kbench.prediction.committee import BayesianCommittee, CommitteeMember
from kbench.prediction.expansion import KernelExpansion, prediction_dtype
from kbench.prediction.local import LocalMachines, group_rows

__all__ = [
    "BayesianCommittee",
    "CommitteeMember",
    "KernelExpansion",
    "LocalMachines",
    "group_rows",
    "prediction_dtype",
]

"""Fast evaluation of fitted kernel machines, and the files that hold them."""

from kbench.errors import ModelError
from kbench.prediction.committee import BayesianCommittee, CommitteeMember
from kbench.prediction.expansion import KernelExpansion, prediction_dtype
from kbench.prediction.libsvm_file import save_libsvm
from kbench.prediction.local import LocalMachines, group_rows
from kbench.prediction.model_file import StoredModel, load_model, save_model

__all__ = [
    "BayesianCommittee",
    "CommitteeMember",
    "KernelExpansion",
    "LocalMachines",
    "ModelError",
    "StoredModel",
    "group_rows",
    "load_model",
    "prediction_dtype",
    "save_libsvm",
    "save_model",
]

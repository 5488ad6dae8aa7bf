"""Fast evaluation of fitted kernel machines, and the files that hold them.

`expansion.py` evaluates functions of the same centres and chooses float32 or float64,
`shared_centres.py` does so for support vectors that several classes share; `local.py` and
`committee.py` evaluate models of clusters, `landmarks.py` leaves with few landmarks,
`hyperplane_tree.py` LDKL. `model_file.py` and `encoding.py` are the open model format,
`local_models_file.py` has models of many clusters in one file, `libsvm_file.py` writes LIBSVM's.
Loops over kernel values are in `kbench.kernels`, fits in `kbench.methods`. docs/solver.md,
"Prediction", says which code evaluates which model.
"""

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

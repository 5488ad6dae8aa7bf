"""DC-SVM with early prediction on rows that are larger than memory; see `out_of_core`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from kbench import class_labels
from kbench.chunked import ChunkedRows
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.methods.base.box_svc import KernelProblems, warn_of_limits
from kbench.methods.base.dual_svc import DualSVC
from kbench.methods.base.sizes import number_of_groups
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.out_of_core.out_of_core import (
    divide_rows,
    max_cluster_rows,
    packed_machine,
    sample_size,
    train_clusters,
    working_folder,
)
from kbench.trace import Deadline, Trace


class ClusterRecord(NamedTuple):
    """The model of a cluster and how its training ended."""

    machine: Any  # a KernelExpansion
    n_support: np.ndarray  # (q,) support vectors of each class
    n_iter: int
    objective: float
    duality_gap: float
    violation: float
    stop_reasons: list[str]  # stop reasons of the problems that did not converge
    kernel_entries: int


@dataclass(frozen=True)
class EarlyTrainer:
    """Trains the model of a cluster: a DCSVC with one cluster, fitted to its rows."""

    model: DualSVC  # Unfitted; a DCSVC with n_clusters=1
    kernel: Kernel
    weights: np.ndarray  # (q,) upper bound of the dual variables of each class
    seed: int

    record: ClassVar[type] = ClusterRecord

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> ClusterRecord:
        q = len(self.weights)
        class_index = targets.astype(np.intp)
        problem = KernelProblems(
            X=X,
            kernel=KernelMatrix(self.kernel, X, self.model.dtype),
            Y=class_labels.signs(class_index, q),
            C=self.weights[class_index],
            labels=class_index,
        )
        model = clone(self.model).set_params(random_state=cluster_seed(self.seed, cluster))
        trace = Trace()
        solution = model._train(problem, Deadline(None, trace), trace)
        assert solution.make_machine is not None
        (part,) = solution.parts
        alpha = np.zeros_like(problem.Y)
        alpha[part.rows] = part.alpha
        support = part.rows[part.alpha.any(axis=1)]
        return ClusterRecord(
            machine=solution.make_machine(alpha).machines[0],
            n_support=np.bincount(class_index[support], minlength=q),
            n_iter=solution.n_iter,
            objective=float(sum(result.objective for result in part.results)),
            duality_gap=float(sum(result.duality_gap for result in part.results)),
            violation=float(max(result.violation for result in part.results)),
            stop_reasons=sorted({r.stop_reason for r in part.results if not r.converged}),
            kernel_entries=problem.kernel.n_entries,
        )


def cluster_seed(seed: int, cluster: int) -> int:
    """Seed of a cluster's training, which does not depend on other clusters."""
    return int(np.random.SeedSequence([seed, cluster]).generate_state(1)[0])


def fit_chunks(
    model: DualSVC,
    rows: ChunkedRows,
    cluster_model: DualSVC,
    settings: Mapping[str, Any],
    n_jobs: int | None,
    trace: Trace,
) -> None:
    """Fit `model`, a DCSVC with combine="early", to rows in chunks.

    `cluster_model` is the unfitted estimator that is trained on the rows of a cluster; `settings`
    has n_clusters, n_samples and branching.
    """
    rng = check_random_state(model.random_state)
    # len(rows) may read all rows, so it is evaluated only if k depends on it.
    k = settings["n_clusters"] or number_of_groups(None, len(rows))
    with trace.phase("survey"):
        seed = rng.randint(2**31)
        targets = ClassTargets()
        survey = Survey(
            rows,
            targets,
            sample_size(settings["n_samples"], k),
            seed,
            checksum=rows.scratch is not None,  # a temporary folder has no files of other rows
            variance=model.gamma == "scale",
        )
    model.classes_, model.n_features_in_ = targets.classes, rows.n_features
    # C="loo" means 1 here, the default of `SVC`: unlike `FeatureSVC`, this fit does not compute
    # leave-one-out errors on the survey's sample.
    C = model.C_ = 1.0 if isinstance(model.C, str) else model.C
    trainer = EarlyTrainer(
        cluster_model, _kernel(model, survey), C * targets.weights(model.class_weight), seed
    )
    max_rows = max_cluster_rows(rows)
    # The folder's name is a hash of these keys and values, so another key would abandon old files.
    identity = {
        "rows": survey.checksum if rows.scratch is not None else "",
        "seed": seed,
        "kernel": trainer.kernel,
        "block_rows": rows.block_rows,
        "most": max_rows,
        **{name: value for name, value in model.get_params(deep=False).items() if name != "n_jobs"},
    }
    with working_folder(rows, identity) as folder:
        division = divide_rows(rows, survey, k, settings["branching"], folder, rng, max_rows, trace)
        with trace.phase("train"):
            packed, results, notes = train_clusters(
                division.stored_clusters, trainer, folder / "machines", trace, n_jobs
            )
    _set_solution_attributes(model, results)
    model.cluster_sizes_ = np.array([stored.size for stored in division.stored_clusters])
    model.n_clusters_ = len(results)
    model.notes_ = division.notes + notes
    m = targets.n_outputs
    n_centres = np.array([result.n_support.sum() for result in results], np.int64)
    model._machine = packed_machine(division.tree, packed, n_centres, m)
    model.intercept_ = np.zeros(m)
    model.model_bytes_ = model._machine.nbytes
    model.timings_ = dict(trace.timings)


def _kernel(model: DualSVC, survey: Survey) -> Kernel:
    gamma = survey.gamma(model.gamma)
    kernel = make_kernel(
        model.kernel, survey.sample, gamma=gamma, degree=model.degree, coef0=model.coef0
    )
    return kernel.bind(survey.sample)


def _set_solution_attributes(model: DualSVC, results: Sequence[ClusterRecord]) -> None:
    """Set the attributes that describe the solution, and warn if a limit was met."""
    model.n_support_ = np.sum([result.n_support for result in results], axis=0)
    model.n_iter_ = sum(result.n_iter for result in results)
    model.objective_ = float(sum(result.objective for result in results))
    model.duality_gap_ = float(sum(result.duality_gap for result in results))
    model.violation_ = max(result.violation for result in results)
    model.kernel_entries_ = sum(result.kernel_entries for result in results)
    reasons = {reason for result in results for reason in result.stop_reasons}
    model.converged_ = not reasons
    warn_of_limits(reasons, model, model._tolerance)

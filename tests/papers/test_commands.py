"""The command of a row, given again, is the run of the row."""

import os
import random
import shlex

import pytest

from kbench.config import composer
from kbench.run.plan import make_plan

pytestmark = pytest.mark.skipif(
    "KBENCH_DATA" not in os.environ, reason="needs real data: set KBENCH_DATA"
)

# Experiments whose plans take seconds, and in which variants of data sets, tuned files, grids and
# parameters of the plan override each other.
EXPERIMENTS = [
    "dcpred_app_fig4",
    "dcpred_fig1",
    "dcpred_front",
    "dcsvm_table5",
    "dsgd_fig1_1_sc2",
    "hss_table4",
    "meka_fig1",
    "meka_fig9",
]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_commands_of_an_experiment_make_the_same_runs(experiment):
    with composer() as hydra:
        runs = make_plan(hydra, [f"experiment={experiment}"], multirun=True).runs
        if not runs:
            pytest.skip(f"the data sets of {experiment} are not in KBENCH_DATA")
        for run in random.Random(experiment).sample(runs, min(4, len(runs))):
            (again,) = make_plan(hydra, shlex.split(run.command)[1:]).runs
            assert again.params == run.params
            assert again.key == run.key
            assert (run.experiment, again.experiment) == (experiment, None)

"""kbench recommend dataset=NAME [variant=NAME] | task=TASK n=ROWS d=FEATURES [density=P] [KEY=...]

Which method to take, by what the rows say of the data set itself or else of the nearest ones: of
the same kind of task, with numbers of training rows and features, and a share of entries that are
not zero (density), of similar orders of magnitude. Methods are compared in pairs over them. Prints
the data sets, the methods with the score to expect, which of them has the best score, trains or
predicts fastest, the reason, and the command to run. Refuses if no data set is near.

format=terminal, markdown, json or latex; reference=false leaves out the rows that came with kbench,
results_dir=DIR reads another folder.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbench.commands.arguments import one_of, read, whole
from kbench.config import read_yaml, require_option
from kbench.errors import ConfigError

if TYPE_CHECKING:
    from kbench.report.recommend import Wanted

KEYS = ["dataset", "variant", "task", "n", "d", "density", "format", "reference", "results_dir"]
TASKS = ("binary", "multiclass", "regression")
FORMATS = ("terminal", "markdown", "json", "latex")


def main(argv: Sequence[str]) -> int:
    """Print the recommendation; exit code 0."""
    from kbench.report import make_recommendation
    from kbench.report.text.terminal import takes_colour
    from kbench.run.results.folder import ResultsFolder

    bare, values = read(argv, KEYS)
    if bare:
        raise ConfigError(f"kbench recommend takes key=value, not {bare[0]!r}")
    text = make_recommendation(
        ResultsFolder(values.get("results_dir", "results")),
        _wanted(values),
        format=one_of("format", values.get("format", "terminal"), FORMATS),
        reference=one_of("reference", values.get("reference", "true"), ["true", "false"]) == "true",
        colour=takes_colour(sys.stdout),
    )
    sys.stdout.write(text)
    return 0


def _wanted(values: Mapping[str, str]) -> "Wanted":
    from kbench.report.recommend import Wanted

    sized = {key for key in ("task", "n", "d") if key in values}
    if "dataset" in values and not sized and "density" not in values:
        return _of_config(values["dataset"], values.get("variant"))
    if sized != {"task", "n", "d"} or "dataset" in values or "variant" in values:
        raise ConfigError("kbench recommend takes dataset=NAME, or task=..., n=... and d=...")
    task = one_of("task", values["task"], TASKS)
    density = _share("density", values["density"]) if "density" in values else None
    return Wanted(task, whole("n", values["n"]), whole("d", values["d"]), density=density)


def _share(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value <= 1.0:
        raise ConfigError(f"{key} is {text!r}, should be a number above 0 and at most 1")
    return value


def _of_config(name: str, variant: str | None) -> "Wanted":
    """A data set by the facts of its config."""
    from kbench.data import with_variant
    from kbench.report.recommend import Wanted

    config = with_variant(read_yaml(require_option("dataset", name)) | {"variant": variant})
    facts = config.get("facts") or {}
    split = config.get("split") or {}
    n = facts.get("n_train") or split.get("n_train")
    if n is None and facts.get("n"):
        n = round(facts["n"] * (1.0 - (split.get("test_fraction") or 0.2)))
    d = facts.get("n_features") or config.get("n_features")
    if not n or not d:
        raise ConfigError(
            f"the config of {name} does not say how large it is: give task=... n=... d=..."
        )
    return Wanted(config["task"], n, d, name)

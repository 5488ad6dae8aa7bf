"""Samplers of settings from intervals such as `method.C=interval(1e-3,1e3)`.

If Optuna is installed, its tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)
proposes settings after ten random ones; otherwise all settings are random. Proposals follow from
the seed and the earlier scores, so a search that was stopped proposes the same settings again and
goes on after its last row.
"""

import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kbench.config import Composer, hydra_value, read_yaml, require_option
from kbench.errors import ConfigError
from kbench.run.planning.request import read_request

# Number of random settings before TPE proposes from scores: Optuna's default (n_startup_trials).
_N_RANDOM = 10
# Ratio of the ends above which a positive interval is searched on a logarithmic scale: in a wider
# interval, a linear scale would hardly ever propose numbers near the lower end. Set by hand.
_LOG_RATIO = 100.0
# Significant digits of a proposed number: scores hardly depend on further digits. Set by hand.
_DIGITS = 6

Setting = dict[str, Any]


@dataclass(frozen=True)
class SearchRange:
    """Numbers from `low` to `high`."""

    low: float
    high: float
    is_integer: bool  # Whether only whole numbers are proposed
    is_log: bool  # Whether the scale is logarithmic

    def at(self, fraction: float) -> float | int:
        """The number at a fraction, from 0 to 1, of the scale."""
        # The ends move by half a unit, as rounding would otherwise halve their probability.
        low, high = (self.low - 0.5, self.high + 0.5) if self.is_integer else (self.low, self.high)
        if self.is_log:
            low = max(low, 0.5) if self.is_integer else low
            return self.rounded(low * (high / low) ** fraction)
        return self.rounded(low + fraction * (high - low))

    def rounded(self, value: float) -> float | int:
        """The whole number, or number of _DIGITS digits, between the ends that is nearest."""
        value_rounded = round(value) if self.is_integer else float(f"{value:.{_DIGITS}g}")
        return type(value_rounded)(min(max(value_rounded, self.low), self.high))


@dataclass(frozen=True)
class Space:
    """The intervals and lists of values of a method's parameters in a command."""

    intervals: Mapping[str, SearchRange]
    lists: Mapping[str, Sequence[Any]]
    words: tuple[str, ...]  # The command's other overrides

    @classmethod
    def of(cls, composer: Composer, overrides: Sequence[str]) -> "Space | None":
        """The space of a command; None if it has no interval.

        Raises ConfigError: an interval is empty or not for a method's key, or there is a grid, too.
        """
        parsed = composer.parse(overrides, intervals=True)
        sweeps = {
            text: override
            for text, override in zip(overrides, parsed, strict=True)
            if override.is_interval_sweep()
        }
        if not sweeps:
            return None
        other_words = [text for text in overrides if text not in sweeps]
        request = read_request(composer, other_words, multirun=True)
        lists = {name: values for name, values in request.params.items() if len(values) > 1}
        swept = {f"method.{name}" for name in lists}
        words = [text for text in other_words if text.partition("=")[0] not in swept]
        for text in other_words:
            if text.lstrip("+").startswith(("grid", "experiment")):
                raise ConfigError(
                    f"{text}: a search over intervals takes lists, as method.kernel=rbf,poly, no "
                    f"{text.lstrip('+').partition('=')[0].partition('.')[0]}"
                )
        method = (request.methods or [""])[0]
        defaults = read_yaml(require_option("method", method)) if method else {}
        intervals = {}
        for text, override in sweeps.items():
            key, sweep = override.key_or_group, override.value()
            if not key.startswith("method."):
                raise ConfigError(
                    f"{text}: only a method's key takes an interval, as method.C does"
                )
            name = key.removeprefix("method.")
            intervals[name] = _interval(text, sweep, defaults.get(name))
        return cls(intervals, lists, tuple(words))

    @property
    def ends(self) -> list[Setting]:
        """Settings in which both ends of every interval and all values of every list occur."""
        values = {n: [i.low, i.high] for n, i in self.intervals.items()} | {**self.lists}
        count = max(map(len, values.values()))
        return [{n: v[min(i, len(v) - 1)] for n, v in values.items()} for i in range(count)]

    def overrides(self, settings: Sequence[Setting]) -> list[str]:
        """The overrides of a command whose runs have these settings."""
        columns = {name: [setting[name] for setting in settings] for name in settings[0]}
        return [*self.words, f"grid.zip={hydra_value([columns])}"]

    def description(self) -> str:
        """A text for the user, such as 'C in [0.001, 1000] (log scale)'."""
        texts = []
        for name, interval in self.intervals.items():
            notes = [*(["whole numbers"] * interval.is_integer), *(["log scale"] * interval.is_log)]
            in_brackets = f" ({', '.join(notes)})" if notes else ""
            texts.append(f"{name} in [{interval.low:g}, {interval.high:g}]{in_brackets}")
        texts += [f"{name} of {len(values)} values" for name, values in self.lists.items()]
        return ", ".join(texts)


def _interval(text: str, sweep: Any, default: Any) -> SearchRange:
    """The range of the interval `sweep`; default : the value in the method's file."""
    low, high = sweep.start, sweep.end
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"{text}: should be interval(LOW,HIGH) with LOW below HIGH")
    has_integer_ends = float(low).is_integer() and float(high).is_integer()
    is_integer = isinstance(low, int) or (type(default) is int and has_integer_ends)
    is_log = "log" in sweep.tags or (low > 0 and high / low > _LOG_RATIO)
    if is_log and not low > 0:
        raise ConfigError(f"{text}: a log scale begins above 0")
    return (
        SearchRange(int(low), int(high), is_integer, is_log)
        if is_integer
        else SearchRange(low, high, is_integer, is_log)
    )


class RandomProposals:
    """Settings drawn uniformly, on a logarithmic scale if the range has one."""

    name = "random"  # the sampler in the tuned file
    description = "random settings (pip install 'kbench[optuna]' for those that learn from scores)"

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._random = space, np.random.RandomState(seed)

    def propose(self) -> Setting:
        """The next setting."""
        intervals, lists = self._space.intervals, self._space.lists
        numbers: Setting = {n: i.at(self._random.uniform()) for n, i in intervals.items()}
        return numbers | {n: v[self._random.randint(len(v))] for n, v in lists.items()}

    def tell(self, setting: Setting, score: float | None) -> None:
        """Ignore the score."""


class OptunaProposals:
    """The first settings of `RandomProposals`, then settings of Optuna's TPE."""

    name = "tpe"
    description = "settings of Optuna's TPE"

    def __init__(self, space: Space, seed: int, direction: Literal["max", "min"]) -> None:
        import optuna
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        self._space, self._random_proposals = space, RandomProposals(space, seed)
        self._study = optuna.create_study(
            direction="maximize" if direction == "max" else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=_N_RANDOM),
        )
        self._ranges: dict[str, Any] = {
            name: IntDistribution(int(interval.low), int(interval.high), log=interval.is_log)
            if interval.is_integer
            else FloatDistribution(interval.low, interval.high, log=interval.is_log)
            for name, interval in space.intervals.items()
        }
        for name, values in space.lists.items():  # as indices, because values have any type
            self._ranges[name] = CategoricalDistribution(range(len(values)))
        self._pending: list[tuple[Setting, Any]] = []
        self._n_random = 0

    def propose(self) -> Setting:
        """The next setting."""
        lists = self._space.lists
        if self._n_random < _N_RANDOM:
            self._n_random += 1
            params = self._random_proposals.propose()
            params |= {name: list(lists[name]).index(params[name]) for name in lists}
            self._study.enqueue_trial(params)
        trial = self._study.ask(self._ranges)
        setting = {n: i.rounded(trial.params[n]) for n, i in self._space.intervals.items()}
        setting |= {name: values[trial.params[name]] for name, values in lists.items()}
        self._pending.append((setting, trial))
        return setting

    def tell(self, setting: Setting, score: float | None) -> None:
        """Record the mean score of a proposed setting, or None if its trials failed."""
        index = next(i for i, (proposed, _) in enumerate(self._pending) if proposed == setting)
        _, trial = self._pending.pop(index)
        state = self._failed if score is None else None
        self._study.tell(trial, score, state=state)


def proposals(
    space: Space, seed: int, direction: Literal["max", "min"]
) -> RandomProposals | OptunaProposals:
    """Optuna's proposals if it is installed, else random ones."""
    if importlib.util.find_spec("optuna") is None:
        return RandomProposals(space, seed)
    return OptunaProposals(space, seed, direction)

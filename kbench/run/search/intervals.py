"""Settings drawn from intervals, as in `method.C=interval(1e-3,1e3)`: the space, and the samplers.

Proposals are those of Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)
where Optuna is installed, and random ones elsewhere; the first ten are random in both. They follow
from the seed and the scores before them, so a search that was stopped proposes what it did before,
and goes on where rows end.
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

# Random proposals before those that scores decide; Optuna's default. More cost trials that learn
# nothing, fewer let an early guess decide. Set by hand.
_RANDOM = 10
# Positive intervals of a larger ratio are searched in logarithms. Set by hand.
_LINEAR = 100.0
# Significant digits of a proposed number: a score does not tell nearer ones apart. Set by hand.
_DIGITS = 6

Setting = dict[str, Any]


@dataclass(frozen=True)
class SearchRange:
    """Numbers from `low` to `high`; `whole` numbers alone; by their logarithm."""

    low: float
    high: float
    whole: bool
    log: bool

    def at(self, place: float) -> float | int:
        """The number at a place from 0 to 1."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            low = max(low, 0.5) if self.whole else low
            return self.rounded(low * (high / low) ** place)
        return self.rounded(low + place * (high - low))

    def rounded(self, value: float) -> float | int:
        near = round(value) if self.whole else float(f"{value:.{_DIGITS}g}")
        return type(near)(min(max(near, self.low), self.high))


@dataclass(frozen=True)
class Space:
    """Intervals and lists of values of a method's parameters, and the other words of a command."""

    intervals: Mapping[str, SearchRange]
    lists: Mapping[str, Sequence[Any]]
    words: tuple[str, ...]

    @classmethod
    def of(cls, composer: Composer, overrides: Sequence[str]) -> "Space | None":
        """The space of a command; None where it names no interval.

        Raises ConfigError: an interval is not of a method's key, is empty, or stands beside a grid.
        """
        parsed = composer.parse(overrides, intervals=True)
        sweeps = {
            text: override
            for text, override in zip(overrides, parsed, strict=True)
            if override.is_interval_sweep()
        }
        if not sweeps:
            return None
        rest = [text for text in overrides if text not in sweeps]
        request = read_request(composer, rest, multirun=True)
        lists = {name: values for name, values in request.params.items() if len(values) > 1}
        swept = {f"method.{name}" for name in lists}
        words = [text for text in rest if text.partition("=")[0] not in swept]
        for text in rest:
            if text.lstrip("+").startswith(("grid", "experiment")):
                raise ConfigError(
                    f"{text}: a search over intervals takes lists as method.kernel=rbf,poly, no "
                    f"{text.lstrip('+').partition('=')[0].partition('.')[0]}"
                )
        method = (request.methods or [""])[0]
        file = read_yaml(require_option("method", method)) if method else {}
        intervals = {}
        for text, override in sweeps.items():
            key, sweep = override.key_or_group, override.value()
            if not key.startswith("method."):
                raise ConfigError(f"{text}: only a method's key takes an interval, as method.C")
            name = key.removeprefix("method.")
            intervals[name] = _interval(text, sweep, file.get(name))
        return cls(intervals, lists, tuple(words))

    @property
    def ends(self) -> list[Setting]:
        """Settings that have both ends of every interval and all values of every list."""
        values = {n: [i.low, i.high] for n, i in self.intervals.items()} | {**self.lists}
        count = max(map(len, values.values()))
        return [{n: v[min(i, len(v) - 1)] for n, v in values.items()} for i in range(count)]

    def overrides(self, settings: Sequence[Setting]) -> list[str]:
        """The words of a command whose runs have these settings."""
        together = {name: [setting[name] for setting in settings] for name in settings[0]}
        return [*self.words, f"grid.zip={hydra_value([together])}"]

    def described(self) -> str:
        """'C in [0.001, 1000] (log scale)', and so on."""
        texts = []
        for name, interval in self.intervals.items():
            kind = [*(["whole numbers"] * interval.whole), *(["log scale"] * interval.log)]
            kinds = f" ({', '.join(kind)})" if kind else ""
            texts.append(f"{name} in [{interval.low:g}, {interval.high:g}]{kinds}")
        texts += [f"{name} of {len(values)} values" for name, values in self.lists.items()]
        return ", ".join(texts)


def _interval(text: str, sweep: Any, value: Any) -> SearchRange:
    """The interval that Hydra read, of a parameter that is `value` in its method's file."""
    low, high = sweep.start, sweep.end
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"{text}: should be interval(LOW,HIGH) with LOW below HIGH")
    integral = float(low).is_integer() and float(high).is_integer()
    whole = isinstance(low, int) or (type(value) is int and integral)
    log = "log" in sweep.tags or (low > 0 and high / low > _LINEAR)
    if log and not low > 0:
        raise ConfigError(f"{text}: a log scale begins above 0")
    return (
        SearchRange(int(low), int(high), whole, log)
        if whole
        else SearchRange(low, high, whole, log)
    )


class RandomProposals:
    """Settings drawn uniformly, intervals of a log scale by their logarithm."""

    name = "random"  # in the tuned file
    described = "random settings (pip install 'kbench[optuna]' for those that learn from scores)"

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._random = space, np.random.RandomState(seed)

    def propose(self) -> Setting:
        """The next setting."""
        intervals, lists = self._space.intervals, self._space.lists
        drawn: Setting = {n: i.at(self._random.uniform()) for n, i in intervals.items()}
        return drawn | {n: v[self._random.randint(len(v))] for n, v in lists.items()}

    def tell(self, setting: Setting, score: float | None) -> None:
        """Scores decide nothing."""


class OptunaProposals:
    """Settings of Optuna's TPE, after random ones that are those of `RandomProposals`."""

    name = "tpe"
    described = "settings of Optuna's TPE"

    def __init__(self, space: Space, seed: int, direction: Literal["max", "min"]) -> None:
        import optuna
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        self._space, self._drawn = space, RandomProposals(space, seed)
        self._study = optuna.create_study(
            direction="maximize" if direction == "max" else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=_RANDOM),
        )
        self._ranges: dict[str, Any] = {
            name: IntDistribution(int(interval.low), int(interval.high), log=interval.log)
            if interval.whole
            else FloatDistribution(interval.low, interval.high, log=interval.log)
            for name, interval in space.intervals.items()
        }
        for name, values in space.lists.items():  # by place: a value may be of any type
            self._ranges[name] = CategoricalDistribution(range(len(values)))
        self._asked: list[tuple[Setting, Any]] = []
        self._n_random = 0

    def propose(self) -> Setting:
        """The next setting."""
        lists = self._space.lists
        if self._n_random < _RANDOM:
            self._n_random += 1
            places = self._drawn.propose()
            places |= {name: list(lists[name]).index(places[name]) for name in lists}
            self._study.enqueue_trial(places)
        trial = self._study.ask(self._ranges)
        setting = {n: i.rounded(trial.params[n]) for n, i in self._space.intervals.items()}
        setting |= {name: values[trial.params[name]] for name, values in lists.items()}
        self._asked.append((setting, trial))
        return setting

    def tell(self, setting: Setting, score: float | None) -> None:
        """The mean score of a proposed setting, None if it has none."""
        place = next(i for i, (asked, _) in enumerate(self._asked) if asked == setting)
        _, trial = self._asked.pop(place)
        state = self._failed if score is None else None
        self._study.tell(trial, score, state=state)


def proposals(
    space: Space, seed: int, direction: Literal["max", "min"]
) -> RandomProposals | OptunaProposals:
    """Optuna's where it is installed, random ones elsewhere."""
    if importlib.util.find_spec("optuna") is None:
        return RandomProposals(space, seed)
    return OptunaProposals(space, seed, direction)

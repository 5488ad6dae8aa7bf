"""Estimators that do to the runner what methods should not do; each behaves on few rows.

The warm-up fits a few rows first, so that misbehaving begins with the real fit.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Naughty(ClassifierMixin, BaseEstimator):
    """Predicts the most frequent class, after doing what `how` says.

    Parameters
    ----------
    how : str
        Name of the misdeed. seconds : float, of sleep before anything else, at whose beginning a
        file that has the marker's name and the process id is made.
    """

    def __init__(self, how="nothing", seconds=0.0, marker="", value=0):
        self.how = how
        self.seconds = seconds
        self.marker = marker
        self.value = value

    def fit(self, X, y, *, trace):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[np.argmax(counts)]
        if X.shape[0] > 300:
            with trace.phase("sleep"):
                if self.seconds and self.marker:
                    Path(f"{self.marker}-{os.getpid()}").touch()
                time.sleep(self.seconds)
            trace(objective=1.0, n_active=X.shape[0])
            getattr(self, self.how)()
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.most_)

    def nothing(self):
        pass

    def notes_its_fit(self):
        with open(self.marker, "ab", buffering=0) as file:
            file.write(b".")

    def raises(self):
        raise RuntimeError("a line\nand another")

    def exits_by_system_exit(self):
        sys.exit("I leave")

    def hangs(self):
        if self.marker:
            Path(f"{self.marker}-{os.getpid()}").touch()
        time.sleep(600)

    def eats(self):
        held = []
        while True:
            held.append(np.ones(1 << 26))  # 512 MiB at once: no limit of time is met before

    def exits(self):
        os._exit(7)

    def is_killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def takes_its_host_along(self):
        """Kill the process that the fork server belongs to: a cluster's worker process."""
        import psutil

        host = psutil.Process().parents()[2]  # above the guard and the fork server
        with open(self.marker, "a") as file:
            file.write("x")
        if Path(self.marker).stat().st_size <= self.value:
            host.kill()
            time.sleep(600)

    def prints(self):
        for _ in range(3):
            print("y" * 1_000_000)
        print("the end of it")

    def leaves_children(self):
        script = f"import time; marker = {self.marker!r}; time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", script], start_new_session=True)

    def does_not_converge(self):
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        self.n_iter_ = 5
        warnings.warn("five are not enough", ConvergenceWarning, stacklevel=1)

    def is_unavailable(self):
        from kbench.errors import UnavailableError

        raise UnavailableError("needs a thing that is not here")


def _spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Evaluated(Naughty):
    """Never ends its fit, and is evaluated for as long as it fits."""

    def fit(self, X, y, *, trace):
        super().fit(X, y, trace=trace)

        def predict(rows):
            _spin(0.1)
            return self.predict(rows)

        samples = X.shape[0]
        while X.shape[0] > 300:
            _spin(0.1)
            samples *= 2
            trace(samples=samples, predict=predict)
        return self


class Positive(Naughty):
    """Refuses a value below zero before it sees data, as scikit-learn's estimators do."""

    _parameter_constraints = {}  # noqa: RUF012

    def _validate_params(self):
        if self.value < 0:
            raise ValueError(f"The 'value' parameter of Positive must be >= 0. Got {self.value}.")

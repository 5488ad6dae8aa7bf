"""Engines whose libraries misbehave, for the process of an engine (`engines.states.serve`)."""

import os
import time

from kbench.errors import ConfigError
from kbench.run.execution.engines.states import ClusterLostError, Report, Stage
from kbench.run.execution.guard import Outcome


class _Engine:
    poll_s, patience_s, keeps_runs = 0.01, 60.0, False

    def __init__(self, settings, tell):
        self.numbers = []

    def submit(self, number, call):
        self.numbers.append(number)

    def reports(self):
        return iter(())

    def waits_for(self):
        return None

    def at_once(self):
        return 1

    def stop(self):
        pass

    def close(self):
        pass


class Works(_Engine):
    def reports(self):
        while self.numbers:
            yield self.numbers.pop(), Report(Stage.FINISHED, outcome=Outcome("ok"))


class Ends(_Engine):
    def reports(self):
        if self.numbers:
            print("the library says goodbye", flush=True)
            os._exit(3)
        return iter(())


class Raises(_Engine):
    def reports(self):
        if self.numbers:
            raise RuntimeError("the library says goodbye")
        return iter(())


class Loses(_Engine):
    def reports(self):
        if self.numbers:
            raise ClusterLostError("the library says goodbye")
        return iter(())


class NeverBegins(_Engine):
    def reports(self):
        if self.numbers:
            raise ClusterLostError("no worker came", begun=False)
        return iter(())


class Hangs(_Engine):
    patience_s = 0.3

    def reports(self):
        time.sleep(600 if self.numbers else 0)
        return iter(())


class HangsWithoutEnd(Hangs):
    patience_s = 600.0

    def close(self):
        time.sleep(600)


class EndsAtOnce(_Engine):
    def __init__(self, settings, tell):
        print("the library says goodbye", flush=True)
        os._exit(3)


class Refuses(_Engine):
    def __init__(self, settings, tell):
        raise ConfigError("the library says goodbye")


class Fails(_Engine):
    def __init__(self, settings, tell):
        raise OSError("the library\nsays goodbye")

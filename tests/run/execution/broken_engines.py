"""Engines whose libraries misbehave, for the process of an engine (`engines.states.serve`)."""

import os
import time

from kbench.errors import ConfigError
from kbench.run.execution.engines.states import ClusterLostError, EngineReport, Stage
from kbench.run.execution.guard import RunOutcome


class _Engine:
    poll_s, patience_s, keeps_runs = 0.01, 60.0, False

    def __init__(self, settings, say):
        self.numbers = []

    def submit(self, number, call):
        self.numbers.append(number)

    def reports(self):
        """The first two runs begin, and then the library does what it does with runs."""
        yield from [(number, EngineReport(Stage.BEGUN)) for number in self.numbers[:2]]
        if len(self.numbers) == 3:
            self.misbehave()

    def waits_for(self):
        return "a worker"

    def at_once(self):
        return 3

    def announce_stop(self):
        pass

    def stop(self):
        pass

    def close(self):
        pass


class Waits(_Engine):
    def reports(self):
        return iter(())


class QueuesAnew(_Engine):
    """Says again and again that its runs had begun, while they wait to be started anew."""


class BeginsNone(Waits):
    def waits_for(self):
        return None


class Works(_Engine):
    def reports(self):
        while self.numbers:
            yield self.numbers.pop(), EngineReport(Stage.FINISHED, outcome=RunOutcome("ok"))


class Ends(_Engine):
    def misbehave(self):
        print("the library says goodbye", flush=True)
        os._exit(3)


class Raises(_Engine):
    def misbehave(self):
        raise RuntimeError("the library says goodbye")


class Loses(_Engine):
    def misbehave(self):
        raise ClusterLostError("the library says goodbye")


class NeverBegins(_Engine):
    def reports(self):
        if self.numbers:
            raise ClusterLostError("no worker came")
        return iter(())


class Hangs(_Engine):
    patience_s = 0.3

    def misbehave(self):
        time.sleep(600)


class HangsWithoutEnd(Hangs):
    patience_s = 600.0

    def close(self):
        time.sleep(600)


class EndsAtOnce(_Engine):
    def __init__(self, settings, say):
        print("the library says goodbye", flush=True)
        os._exit(3)


class Refuses(_Engine):
    def __init__(self, settings, say):
        raise ConfigError("the library says goodbye")


class Fails(_Engine):
    def __init__(self, settings, say):
        raise OSError("the library\nsays goodbye")


class NeverConnects(_Engine):
    def __init__(self, settings, say):
        time.sleep(600)

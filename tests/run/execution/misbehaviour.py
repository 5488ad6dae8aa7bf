"""Work for the sandbox that does what methods should not do."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time


def well(task, send):
    send({"event": "start"})
    print("some words")
    send({"event": "result", "status": "ok", "row": {"answer": task["answer"]}})


def takes_a_moment(task, send):
    send({"event": "start"})
    time.sleep(task["seconds"])
    send({"event": "result", "status": "ok"})


def walks(task, send):
    for step in task["path"]:
        if step == "dies":
            os._exit(3)
        send({"event": "start"})
        time.sleep(600 if step == "hangs" else 0.25)
        status = "error" if step == "fails" else "ok"
        send({"event": "result", "status": status, "row": {"step": step}})


def large_result(task, send):
    send({"event": "result", "status": "ok", "row": {"values": list(range(200_000))}})


def raises(task, send):
    raise ValueError("no luck")


def hangs(task, send):
    send({"event": "start"})
    time.sleep(600)


def hangs_before_start(task, send):
    time.sleep(600)


def compiles_longer_than_every_limit(task, send):
    for event in ("start", None):  # once before the clocks of the fit begin, once after
        send({"event": "compiling", "on": True})
        end = time.process_time() + 1.3
        while time.process_time() < end:
            pass
        send({"event": "compiling", "on": False})
        if event:
            send({"event": event})
    send({"event": "result", "status": "ok"})


def ignores_signals_and_spins(task, send):
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    send({"event": "start"})
    while True:
        pass


def predicts_slowly(task, send):
    send({"event": "start"})
    send({"event": "phase", "phase": "fit"})
    send({"event": "phase", "phase": "predict", "fit_cpu_s": 7.29})
    time.sleep(600)


def fits_slowly(task, send):
    send({"event": "start"})
    send({"event": "phase", "phase": "fit: cluster", **task["told"]})
    end = time.process_time() + 0.25
    while time.process_time() < end:
        pass
    time.sleep(600)


def exits(task, send):
    os._exit(3)


def kills_itself(task, send):
    os.kill(os.getpid(), signal.SIGKILL)


def segfaults(task, send):
    ctypes.string_at(0)


def prints_megabytes(task, send):
    print("the very first line")
    for _ in range(5):
        print("x" * 2_000_000)
    print("the very last line")
    send({"event": "result", "status": "ok"})


def _mark(task):
    """A process that would outlive everything, recognisable by its command line."""
    script = f"import time; marker = {task['marker']!r}; time.sleep(600)"
    return subprocess.Popen([sys.executable, "-c", script], start_new_session=True)


def leaves_children(task, send):
    _mark(task)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _mark(task).wait()
        os._exit(0)
    time.sleep(0.3)
    send({"event": "result", "status": "ok"})


def hangs_with_children(task, send):
    _mark(task)
    time.sleep(0.2)
    send({"event": "start"})
    time.sleep(600)


def eats_at_once(task, send):
    import numpy as np

    np.ones(1 << 31)


def eats_with_numba(task, send):
    import numba
    import numpy as np

    @numba.njit
    def fill():
        return len([np.ones(1 << 17) for _ in range(100_000)])

    fill()


def eats_with_libsvm(task, send):
    import numpy as np
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 4))
    y = rng.integers(0, 2, 12_000)
    SVC(C=1e6, gamma=1e3, cache_size=4_000).fit(X, y)


def eats_with_numpy(*_):
    import numpy as np

    held = []
    while True:
        held.append(np.ones(1 << 20))


def eats_in_a_loky_child(task, send):
    from joblib import Parallel, delayed

    Parallel(n_jobs=2, backend="loky")(delayed(eats_with_numpy)(i) for i in range(2))


def frees_in_time(task, send):
    import numpy as np

    for _ in range(50):
        np.ones(1 << 20)
    send({"event": "result", "status": "ok"})


def threads(task, send):
    from kbench.run.execution.worker import set_threads

    set_threads(task["threads"], task["cpus"])
    import numpy  # noqa: F401
    from threadpoolctl import threadpool_info

    pools = [pool["num_threads"] for pool in threadpool_info()]
    send(
        {
            "event": "result",
            "status": "ok",
            "row": {"pools": pools, "cpus": sorted(os.sched_getaffinity(0))},
        }
    )


def reports_much_progress(task, send):
    """Each message about the run's state takes most of a page of the pipe to the runner."""
    _mark(task)
    send({"event": "start"})
    for k in itertools.count():
        send({"event": "progress", "state": {f"number {i}": float(k) for i in range(150)}})
        time.sleep(0.1)

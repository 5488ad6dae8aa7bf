"""Wall time of the commands: the limits are 0.5 s for help and list, 5 s for a plan of 10,000 runs.

python scripts/bench_cli.py
"""

import statistics
import subprocess
import sys
import tempfile
import time

# Arguments, repetitions, limit in seconds.
COMMANDS = (
    (["--help"], 5, 0.5),
    (["list"], 5, 0.5),
    (["plan", "-m", "method=svc", "seed=range(0,400)", "grid=c_gamma"], 3, 5.0),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for words, repeats, limit in COMMANDS:
            seconds = []
            for _ in range(repeats):
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "kbench", *words],
                    cwd=folder,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                seconds.append(time.perf_counter() - begin)
            median = statistics.median(seconds)
            print(f"kbench {' '.join(words):58} {median:6.2f} s  (limit {limit} s)")


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()

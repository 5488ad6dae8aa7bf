"""SLURM's commands as shell scripts that read and write files: refusals, limits and states at will.

`sbatch` takes `limit` jobs at most (file `limit`), or refuses with the text of the file `refuses`.
What `sacct` and `squeue` know of the jobs is in the file `states`, lines `id|STATE|node|reason`; a
file `no_accounting` or `no_controller` makes them fail as the real ones do. With a file `forgets`
`squeue` has no jobs that have ended, and fails as the real one does if none is left; with one
`late` this is what `sacct` says. With a file `late_controller` `sbatch` submits the job and fails.
The variables of `sbatch` and `squeue` are in the file `variables`.
"""

import os
import stat
from pathlib import Path

_SCRIPTS = {
    "srun": "exit 0",
    "sbatch": """
array=$(grep -o 'array=0-[0-9]*' "$1" | grep -o '[0-9]*$'); n=$(( ${array:-0} + 1 ))
echo "$n" >> asked; env | grep '^S[A-Z]*_' > variables
if [ -s refuses ]; then cat refuses >&2; exit 1; fi
if [ -s limit ] && [ $(( $(grep -c 'PENDING\\|RUNNING' states) + n )) -gt "$(cat limit)" ]; then
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2
  echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy' >&2
  exit 1
fi
id=$(( $(cat id) + 1 )); echo $id > id
if [ "$array" ]; then for k in $(seq 0 $array); do echo "${id}_$k|PENDING|" >> states; done
else echo "$id|PENDING|" >> states; fi
if [ -e late_controller ]; then
  echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
  exit 1
fi
echo "Submitted batch job $id"
""",
    "sacct": """
if [ -e no_accounting ]; then echo Slurm accounting storage is disabled >&2; exit 1; fi
echo 'JobID|State|NodeList'; if [ -e late ]; then cat late; else cat states; fi
""",
    "squeue": """
env | grep '^S[A-Z]*_' >> variables
if [ -e no_controller ]; then echo 'Unable to contact slurm controller' >&2; exit 1; fi
case "$*" in
*--name*) grep 'PENDING\\|RUNNING' states | cut -d'|' -f1;;
*) if [ ! -e forgets ]; then cat states; elif ! grep 'PENDING\\|RUNNING' states; then
  echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; fi;;
esac
exit 0
""",
    "scancel": """echo "$@" >> cancelled""",
}


class FakeSlurm:
    """The commands, first in the PATH of `monkeypatch`."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in _SCRIPTS.items():
            script = folder / name
            script.write_text(f"#!/bin/sh\ncd {folder}\n{text}")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.tell("id", "0")
        self.tell("states", "")

    def tell(self, name: str, text: str = "yes") -> None:
        """Write a file that the commands read."""
        (self.folder / name).write_text(text)

    def asked(self) -> list[int]:
        """Number of jobs of each call of `sbatch`."""
        path = self.folder / "asked"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def jobs(self) -> list[str]:
        return [line.split("|")[0] for line in (self.folder / "states").read_text().split()]

    def becomes(self, job_id: str, state: str, node: str = "node7|") -> None:
        """Give a job another state, and a node or, after a bar, a reason to wait."""
        lines = (self.folder / "states").read_text().split("\n")
        lines = [f"{job_id}|{state}|{node}" if x.split("|")[0] == job_id else x for x in lines]
        self.tell("states", "\n".join(lines))

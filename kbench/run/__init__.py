"""The way of a run: plan, runner, guarded worker, row."""

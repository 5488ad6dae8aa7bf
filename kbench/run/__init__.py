"""Plan runs, do them in guarded workers, and store their rows."""

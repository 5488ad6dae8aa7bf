"""Studies over several papers: what the idea gains and what the code, what a budget buys."""

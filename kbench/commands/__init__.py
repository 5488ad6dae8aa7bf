"""The commands of `kbench`: one module each, with `main(argv) -> exit code`; its docstring is its help."""

"""The commands of `kbench`: a module each, `main(argv) -> exit code`, help in its docstring."""

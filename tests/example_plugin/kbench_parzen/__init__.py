"""An example of a method for kbench in a package of its own."""

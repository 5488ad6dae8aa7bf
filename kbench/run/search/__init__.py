"""Choice of a method's parameters on training rows: cross-validation and successive halving.

Any method can be searched, run by run. Estimators that choose their own parameters are in
`kbench.methods.automatic`, with `kbench.width_search`; the words of `kbench tune` are in
`kbench.commands.tuning`, and tuned files in `planning`.
"""

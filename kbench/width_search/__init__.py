"""Choice of kernel width, C and epsilon from the training rows alone (`kbench.methods.automatic`).

gram           kernel matrices of a few thousand rows, for many widths
c_path         support vector machines of one kernel matrix, along increasing C
surface        Gaussian process of the log error over (log gamma, log C, log rows)
rungs          pairs of training and validation rows, and errors of models on them
search         which rungs and which parameters are tried, and which parameters win
constants      the tuned numbers of the search
leave_one_out  kernel width and ridge in closed form
tasks          the errors that the search minimises, of classes and of real targets

The final fit and its estimators are in `kbench.methods.automatic`, learned metrics in
`kbench.metric`; `kbench tune`, which searches by runs of any method, is in `kbench.run.search`.
"""

"""The constants of the search: docs/tuned.md explains the method that they belong to.

Each line says what the number is (with its unit) and what it trades off. `scripts/ablate_tuned.py`
measures what each is worth: it halves and doubles one, and compares held-out errors and the number
of kernel values on data sets that are left out in turn. A number without a measurement or a paper
in its comment was set by hand. What is not here is derived: how many rows and folds a rung has
(from `GRID_VALUES`, `SECOND_VALUES`, `SAMPLE_VALUES`, `LAST_VALUES`), when neighbourhoods end (from
the sampling error), what a final fit costs (from the stages of the search), how long a rung may go
on (from the time budget). Block sizes of kernel values, which change no result, are in `gram.py`.
"""

import numpy as np

# ---- Rungs: which rows are trained on, and which validate -------------------------------------

# Kernel values between training rows, for one width, of the coarse grid, the second rung, the
# sample that follows neighbourhoods, and the last rung: a model's cost is proportional to them.
# More values take more seconds and leave less noise. A rung has the most folds of 5, 3 or 2 that
# fit, or else two samples. Up to 2^14 rows both halves of all rows fit into the last rung.
GRID_VALUES, SECOND_VALUES, SAMPLE_VALUES, LAST_VALUES = 2**21, 2**24, 2**25, 2**27
FOLDS = (5, 3, 2)
# Maximum number of validation rows of a pair of samples: with 4,000 the sampling error of an error
# rate of 10 % is half a percentage point.
VALIDATION_ROWS = 4000
# Points of each rung after the grid, after which the surface is fitted again; widths of the later
# rungs of ridge models; models of the last comparison of classifiers. The time is proportional
# to this number.
POINTS_PER_RUNG = 5
# Under a time limit a pilot, which is one width on few rows, tells how long the first grid takes.
# Kernel values of the grid divided by those of its pilot, and rows of the pilot of ridge models: a
# smaller pilot is less exact, a larger pilot costs more of the limit.
PILOT_FACTOR, PILOT_ROWS = 64, 100

# ---- Neighbourhoods at the density of all rows -------------------------------------------------

# Rows of a neighbourhood, and the fraction of them that validates, drawn from twice as many rows
# nearest to its centre. More rows see more of the surroundings and cost their square.
LOCAL_ROWS, LOCAL_VALIDATION = 2000, 0.2
# Maximum number of neighbourhoods, and the errors after which none is added: the relative sampling
# error of an error rate is 1 / sqrt(errors).
MAX_NEIGHBOURHOODS, LOCAL_ERRORS = 24, 800
# The (t, local) of `kbench.width_search.surface` at which the surface is minimised after
# neighbourhoods: halfway between those of a neighbourhood, (-1, 1), and those of a model of all
# rows, (0, 0), which has the density of a neighbourhood but sees more of the data.
LOCAL_GOAL = (-0.5, 0.5)
# Octaves of gamma over which errors of neighbourhoods must be alike for samples to replace them.
FLAT_OCTAVES = 12.0

# ---- The surface: priors of `kbench.width_search.surface` --------------------------------------
# With larger deviations of shape, changes and offsets the surface follows its points more closely.

# Drifts among which the most likely one is taken, in octaves of gamma per doubling of the rows.
DRIFTS = (0.0, 0.2, 0.4, 0.6)
# Correlation lengths in octaves of gamma and of C. With these and a Matern kernel, the log errors
# of eight development sets have e^230 times the likelihood that a Gaussian one of lengths 2.2 and
# 2.8 gives; the Gaussian one overshoots beside slopes.
CORRELATION_LENGTHS = (8.8, 11.2)
# Deviation of the shape as a multiple of the deviation of the log errors seen, and its least value.
SHAPE_DEVIATIONS, MIN_DEVIATION = 1.5, 0.2
# Deviation of changes of the shape, per doubling of the rows and in neighbourhoods, as a fraction
# of the deviation of the shape.
CHANGE_DEVIATION = 0.2
# Deviation of the offset of all log errors, of its change per doubling of the rows, and of its
# change in neighbourhoods.
OFFSET_DEVIATION = 0.5
# Deviations of a log error besides its sampling error: of its own, and of all points of its rung.
NOISE_DEVIATION = 0.03
# An expected improvement of the log error below the first number is not worth a model; points whose
# expected log error is above the best by more than the second number are not tried.
MIN_IMPROVEMENT, MAX_EXPECTED_EXCESS = 3e-4, 0.3

# ---- The points that may be tried or chosen ----------------------------------------------------

# Octaves of gamma, in units of that of the median distance (`PreparedRows.unit`), and of C, in
# units of the targets' deviation.
WIDTHS, CS = np.arange(-6.0, 9.0), np.arange(-4.0, 11.0)
# Spacing in octaves of the points among which the answer is chosen, and their largest distance from
# a point that was tried after the grid: farther away the surface only extrapolates.
SPACING, TRUST_RADIUS = 0.25, 0.75
# What an octave of gamma or C costs, as a fraction of the sampling error of the log error: of
# models whose errors do not differ significantly, the smoother and cheaper one is chosen.
OCTAVE_COST = 0.05
# An octave of C beyond 2^LARGE_C deviations must lower the log error by LARGE_C_COST: steps of the
# final fit grow with C, and a stopped fit has a larger error. Without this cost kin40k (32,000
# rows, seed 0) has C = 54, not 38, and an RMSE of .114, not .092; a9a has C = 128, not 4, at an
# equal error.
LARGE_C, LARGE_C_COST = 5.0, 0.012
# Multiple of the largest coefficient of the nearest model to which a larger C is lowered: models of
# more rows have other coefficients, and a C beyond them only costs steps.
BOUND_MARGIN = 2.0
# Deviation of a log error from those of other models on the same validation rows, as a fraction of
# its sampling error, most of which these models share.
PAIRED_DEVIATION = 0.35

# ---- Models of the search ----------------------------------------------------------------------

# Limit on steps of a model for each training row: of the grid and of regressions, and of later
# classifiers. More steps solve more models of large C, and take proportionally longer.
STEPS, STEPS_OF_CLASSES = 10, 25
# A first C above FIRST_C deviations of the targets is reached by factors of CLIMB_FACTOR from
# there, at the violation CLIMB_TOL: from zero, a model of C = 2^7 takes ten times as many steps. A
# regression may take CLIMB_STEPS of the limit on steps for each C on the way: with 1 and with 0.1,
# models of bike (C = 64 to 460) take 0.09 to 0.36 s and 0.08 s, with errors within 0.5 per cent.
FIRST_C, CLIMB_FACTOR, CLIMB_TOL, CLIMB_STEPS = 0.25, 4.0, 0.5, 0.1
# Violation at which models stop: of classifiers with margin 1 and of the final regression, in
# held-out deviations; of regressions of the search, in deviations of the targets.
TOL, TOL_OF_TARGETS = 0.1, 0.05
# Half the width of the tube of the grid, in deviations of the targets, and of later rungs, in
# RMSEs of the grid's best model: wider tubes have fewer support vectors.
GRID_TUBE, TUBE_OF_ERROR = 0.05, 0.3
# Deviation added to the log error of a model that the limit on steps stopped, so that the model
# counts less.
UNSOLVED_DEVIATION = 0.05

# Maximum number of pairs of classes of a model of the search: with more than 35 classes, these are
# divided into groups of at least 14 similar ones, and only pairs within a group are solved. With
# 120 classes 7,140 pairs at each width and C took 144 s (`scripts/bench_everyday.py --automatic`).
# Smaller groups have too few errors to choose by.
MAX_PAIRS, MIN_GROUP = 600, 14

# ---- Final models of classifiers of many rows ------------------------------------------------

# Kernel values, n^2 times the fraction of support vectors, up to which larger models are
# compared after the search, and their maximum number of training rows. Each takes under a second.
CHEAP_VALUES, COMPARED_ROWS = 2.0**30, 20_000
# Factor of C and gamma from one compared model to the next: nearer to 1 needs more models.
COMPARED_FACTOR = 0.25
# Maximum number of rows that validate the compared models; at most a fifth of all rows do.
MAX_HELD_OUT = 10_000
# Kernel values above which early DC-SVM is fitted (2^34 take a minute or more); rows of a cluster.
MAX_VALUES, CLUSTER_ROWS = 2.0**34, 2500
# Maximum number of rows that calibrate: a sigmoid's two numbers raise the log loss by 1 / rows.
CALIBRATION_ROWS = 20_000

# ---- Final models of regressions -------------------------------------------------------------

# Tubes that are compared, in held-out deviations. 0.6 is optimal for Gaussian noise (Smola, Murata,
# Scholkopf and Muller, ICANN 1998). Narrower ones have more support vectors.
TUBES = (1.0, 0.6, 0.2, 0.1)
# Limit on steps times rows of the final model: 10 to 20 s.
FINAL_WORK = 1e11

# ---- Heavy-tailed targets ----------------------------------------------------------------------

# NORMAL_IQR is the interquartile range of normal targets in deviations; a range divided by it is a
# robust deviation. HEAVY_TAILS is the ratio of both deviations above which targets, and held-out
# errors, are heavy-tailed (normal 1, exponential 1.2, cpusmall 1.9, two per cent at a hundred
# deviations 14; at 1.5 the errors of cpusmall are one per cent higher). Then larger errors count as
# LARGEST_ERROR robust deviations: with 3 the errors on "outliers in y" of `scripts/everyday.py`
# equal SVR's, with 8 they are twice these.
NORMAL_IQR, HEAVY_TAILS, LARGEST_ERROR = 1.349, 2.0, 3.0
# The quantile of absolute errors from which their robust deviation follows, and its value for
# normal errors of deviation 1: a fifth of the errors may be anything. Medians are small where most
# targets are one value: with medians, errors on "mostly zero" of `scripts/everyday.py` were 8 per
# cent higher.
ERROR_QUANTILE, NORMAL_QUANTILE = 0.8, 1.2816

# ---- Ridge models ----------------------------------------------------------------------------

# Rows of the eigendecompositions of two rungs and of the last rung's factorisations, O(rows^3), and
# disjoint samples of the first two rungs if there are rows for them.
RIDGE_ROWS, RIDGE_SAMPLES = (600, 1000, 3000), (1, 2)
# Octaves of ridge that are tried; all ridges of a width share one eigendecomposition.
RIDGES = np.arange(-20.0, 5.0, 2.0)
# Octaves from the best gamma of the last rung to the next one.
RIDGE_STEPS = (2.0, -2.0, 1.0, -1.0)
# Rows up to which the kernel matrix is factorised (1 GiB of float32).
MAX_FACTORISED = 16_384
# Rows above which FALKON takes the place of the factorisation, too, if the effective dimension of
# the model is at most this fraction of the 3,000 rows of the last rung, so that landmarks span it.
# 15,000 rows of 18 columns take 4 s instead of 26 at the same error (`scripts/bench_everyday.py
# --automatic`). On bike (13,903 rows), at a fraction of .58, the error is 12 % higher with FALKON.
MAX_SMOOTH, SMOOTH_FRACTION = 8192, 0.5
# Fewest and most landmarks, and landmarks for each effective dimension of the last rung's rows.
# On twelve sets of 11,000 to 29,000 rows the error on held-out rows is at most .8 % above that with
# 3,000 landmarks, after a third of the time where 1,500 are enough.
LANDMARKS, LANDMARKS_PER_DIMENSION = (1500, 3000), 3
# Rows of FALKON's preconditioner for each landmark. With one row, kin40k takes 12 s, not 6, and
# ends unsolved at an error 4 % higher; with two, cadata ends unsolved; more than three cost more
# than they save.
PRECONDITIONER_ROWS = 3

# ---- Columns, metrics and budgets --------------------------------------------------------------

# Fraction of the time budget that the search may take; the rest is for the final fit.
SEARCH_BUDGET = 0.5
# Multiple of the expected seconds of a final fit that must be left: more gives up more exact fits.
TIME_MARGIN = 2.0
# Ratio of the columns' deviations from which on standardised columns are compared with those
# given, and the improvement of the first rung's error for which they are kept, as a fraction. The
# first rung has a thousand rows: on covtype_93k (74,370 rows) standardised columns gained 0 to 1.8
# per cent there and nothing on all rows, where their models are smoother and took 25 s, not 3.
MIN_SCALE_RATIO, SCALER_GAIN = 3.0, 0.05
# Rows on which the Euclidean and the learned metric are compared; seconds that learning one needs.
METRIC_ROWS, METRIC_SECONDS = 4000, 12.0
# Maximum numbers of rows and columns for which a metric is learned by default: that takes two to
# three times the seconds of the search, at 1,000 rows of 10 columns 3 s instead of 1
# (`scripts/everyday.py`), and errors are a third lower where columns are irrelevant.
SMALL_ROWS, SMALL_COLUMNS = 2000, 100
# With more rows and at most WEIGHTS_COLUMNS columns, weights of the columns are tried on this many
# rows and as many held-out ones in .1 CPU s, and learned from SMALL_ROWS, beginning with
# WEIGHTS_SEARCH. The trial must lower the held-out error by the fraction WEIGHTS_TRIAL, the first
# rung by WEIGHTS_GAIN: trials gained .2 to .93 where weights lower the error of other rows by more
# than 5 % (kin40k less), and up to .08 on generated sets, .21 on real ones, where they do not
# (docs/tuned.md).
WEIGHTS_ROWS, WEIGHTS_SEARCH, WEIGHTS_COLUMNS = 500, 800, 250
WEIGHTS_TRIAL, WEIGHTS_GAIN = 0.15, 0.1
# Least gain of the held-out error, as a fraction, for a metric's (d, d) product at every new row.
METRIC_GAIN = 0.02
# Standard errors that a difference of held-out errors must exceed for the more expensive choice: a
# learned metric, standardised columns, a narrower tube. A difference in a single row is one
# standard error.
STANDARD_ERRORS = 1.5
# Factor of the steps per row of the search beyond which a model that the search could not solve
# is expected to be solved; below this factor, rows are held out in case the model is not solved.
UNSOLVED_STEPS = 100
# Maximum number of rows that are held out to compare the search with a final model that may stop.
CHECKED_ROWS = 1000

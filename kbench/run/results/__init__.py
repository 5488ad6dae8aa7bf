"""Rows of runs and the folder that holds them: schema, files, merging, environment, scores."""

"""The matrix of training jobs that must have equal bits with and without a budget."""

"""Runs the same training in several ways ("arms") and compares the results."""

"""Runs the same training in several ways ("arms") and compares what came out."""

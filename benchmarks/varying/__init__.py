"""Trainings whose steps differ: variations of examples/pretrain_llama.py."""

"""Random programs over a pool of tensors, by seed.

`instructions` has what a program may do, `programs` makes a program of a seed and runs it, and
`trials` compares a run under a session with one on stock PyTorch and shrinks what differs.
"""

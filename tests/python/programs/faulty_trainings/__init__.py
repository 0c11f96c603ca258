"""Whole trainings on three drives that fail and lie, by seed.

    PYTHONPATH=tests/python/programs python -m faulty_trainings FIRST [END]

Each seed chooses a job of the matrix, a budget, a size of the host tier, and what is wrong with the
drives (testing/faulty_drives). A training must end in one of two ways:

* with the bits of stock PyTorch, or
* with an error that names a drive, or says that no tier takes a tensor. Then every parameter either
  has bytes that it also had at some moment of the training without TERAIO, or cannot be read, which
  raises an error. Where drives only refuse writes, every parameter can be read.

A drive that hangs answers nothing until the training has ended, or until the other drives have had
some requests; --io-timeout ends the waits for it. Lies of a drive (flipped bits, lost, misdirected
and torn writes) are found by the checksum, so the trainings on drives that lie use it.

A seed repeats its faults, as far as the order of the requests of one offset does not depend on
time. The faults of a seed that ends otherwise are dropped as long as the rest ends so, too. A line
of JSON is left, which `--repeat FILE` tries again.
"""

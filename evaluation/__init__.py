"""Predicts the evaluation of the TERAIO paper: `make paper` writes docs/evaluation.md.

cases       models as they are trained, the machine, and the systems
traces      a dry run of each case (scripts in workloads), reduced to kernels
analyses    what `teraio` computes from a trace
tables, figures, document
            the content of the document
tasks       runs all of these as tasks of doit, with progress and state
"""

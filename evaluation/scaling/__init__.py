"""Predicts jobs of many ranks: `make scaling` writes docs/scaling.md.

layouts      how states are divided over ranks, and the traces of one rank
node         a machine of eight GPUs, and what each rank has of it
network      the time of a collective
collectives  where the collectives of a trace begin, and where their results are needed
lockstep     ranks that wait for each other at collectives
job          plans and simulates the ranks of a job until they agree on these waits
late_reads   random delays of reads, of which every rank has its own
cases        the jobs that the page compares
page, figures
             the content of the page
"""

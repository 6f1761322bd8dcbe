"""Ordered processing on shared memory: worklists, reordering buffers and schedulers, after "Scaling Ordered Stream
Processing on Shared-Memory Multicores" (Prasaad, Ramalingam, Rajan 2018). Sections and figures are of that paper.

A unit of work is any object: a batch of items, or a ``Mark`` (a marker or a barrier). Nothing here looks into it.
"""

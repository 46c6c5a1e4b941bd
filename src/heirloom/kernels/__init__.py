"""Compiled inner loops: plain arrays in, results written in place, no objects.

A model is passed as its rows in compressed form: row `k = s * A + a` holds the transitions of the
pair (s, a) that go on, `indptr[k]:indptr[k + 1]` of `successors` and `p`. What is missing to one
ends the episode and is worth nothing.
"""

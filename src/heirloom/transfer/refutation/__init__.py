"""Tests of claims (a nearness, a prior or a `p_min`) against what was learned."""

"""Tests of prior knowledge (a nearness, a `d_max` or a `p_min`) against what was learned."""

"""Agents: one learner, and the bounds that make it RMax, LRMax, MaxQInit or LRMaxQInit."""

"""Agents: the optimistic learner behind RMax, LRMax, MaxQInit and LRMaxQInit, and two baselines."""

"""Attacks on runs, with counts: kills, and damage to files.

python -m tests.attack kills --count 100
python -m tests.attack damage --count 300
"""

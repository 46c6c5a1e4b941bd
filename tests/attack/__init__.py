"""Attacks on runs, with counts: kills, damage to files, and many small jobs.

python -m tests.attack kills --count 100
python -m tests.attack workers --count 100
python -m tests.attack damage --count 300
python -m tests.attack links
python -m tests.attack many --count 10000
"""

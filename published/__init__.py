"""The measured numbers in README and docs: how they are measured, kept, and written into tables.

    make numbers     measure everything that is deterministic anew, and write all tables
    make tables      write all tables from the results that are kept
    make bench       measure speed; `make publish-bench` keeps what it measured

`results/` has the results that are kept, each with the versions and the code that it came from.
In a document, a table stands between `<!-- numbers: NAME -->` and `<!-- /numbers -->`, and
`tables.py` has a function for each NAME. Tests compare documents with results, and results with
what the code gives.
"""

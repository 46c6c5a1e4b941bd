"""The measured numbers in README and docs: how they are measured, stored, and written into tables.

    make numbers     measure all deterministic results again, and write all tables
    make tables      write all tables from the stored results
    make bench       measure speed; `make publish-bench` stores the measurements

`results/` contains the stored results, each with the versions and the commit that produced it.
In a document, a table stands between `<!-- numbers: NAME -->` and `<!-- /numbers -->`; `tables.py`
has a function for each NAME. Tests compare the documents with the stored results, and the stored
results with the output of the code.
"""

"""The golden run: small experiments whose results are stored here, and compared in `make test`.

`specs/` contains the experiments, and `arrays/` their results. The test fails if an array changes.
`make golden` computes the arrays again, prints the changes, and stores the new arrays. Intended
changes are recorded in the changelog.
"""

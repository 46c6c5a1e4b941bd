"""The golden run: small experiments whose results are kept here, and compared in `make test`.

`specs/` has the experiments, `arrays/` what they gave. Nothing may change these arrays unnoticed;
`make golden` computes them anew, prints what moved, and writes them. If they moved on purpose, the
changelog says so.
"""

"""The HTML report of one or several runs: one file that opens from disk, without a network.

The package is not named `report`, because that is the public function `heirloom.report`.
"""

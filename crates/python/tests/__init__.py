"""Tests of the Python package: `python3 -m unittest discover -s crates/python/tests -t crates/python`."""

import os

# One engine for all tests, on every machine.
os.environ.setdefault("DAPPLE_DEVICE", "cpu")

"""Runs all tests and prints their numbers in the form of Rust's tests: `python3 -m tests` in crates/python."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent


def main():
    suite = unittest.defaultTestLoader.discover(str(HERE), top_level_dir=str(HERE.parent))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    passed = result.testsRun - failed - skipped
    word = "ok" if result.wasSuccessful() else "FAILED"
    print(f"test result: {word}. {passed} passed; {failed} failed; {skipped} ignored")
    return 0 if result.wasSuccessful() else 1


sys.exit(main())

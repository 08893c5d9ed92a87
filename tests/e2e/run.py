"""Runs one test class: run.py MODULE.CLASS. Exits with 77 and says why when all of it was skipped."""

import sys
import unittest


def main():
    suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    result = unittest.TextTestRunner(verbosity=2, failfast=True).run(suite)
    if not result.wasSuccessful():
        return 1
    if result.skipped and len(result.skipped) >= result.testsRun:
        print(f"SKIPPED: {result.skipped[0][1]}")
        return 77
    return 0 if result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())

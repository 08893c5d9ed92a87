"""Runs one test class in namespaces of its own: run.py MODULE.CLASS. Exits with 77 and says why when all was skipped."""

import os
import runpy
import sys

import fleet

if __name__ == "__main__":
    fleet.in_own_namespaces()
    runpy.run_path(os.path.join(fleet.ROOT, "tests", "e2e", "run.py"), run_name="__main__")

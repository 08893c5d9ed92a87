"""Lists the skipped tests of a ctest log (Testing/Temporary/LastTest.log), each with its reason."""

import re
import sys


def skipped(lines):
    """Yields (test name, reason) for each test that says it was skipped."""
    name, skip, reason = None, False, ""
    for line in lines:
        if found := re.match(r"\d+/\d+ Test: (.*)", line):
            name, skip, reason = found.group(1).strip(), False, ""
        elif re.search(r": Skipped$", line):  # GoogleTest: FILE:LINE: Skipped, then the reason
            reason = None
        elif reason is None:
            reason = line.strip()
        elif found := re.match(r"SKIPPED: (.*)", line):  # scripts: exit status 77 and this line
            skip, reason = True, found.group(1).strip()
        elif "[  SKIPPED ]" in line:
            skip = True
        elif line.startswith("Test time =") and skip:
            yield name, reason or "no reason given"


def main():
    try:
        with open(sys.argv[1], errors="replace") as log:
            rows = sorted(set(skipped(log)))
    except FileNotFoundError:
        return
    print(f"\nSkipped: {len(rows)}")
    for name, reason in rows:
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()

"""README.md's table names tests that exist, for every kind of fault."""

import os
import re
import unittest

import fleet

KINDS = 30


def sources():
    for top in ("unit", "integration", "fault", "e2e"):
        for folder, _, names in os.walk(os.path.join(fleet.ROOT, "tests", top)):
            for name in names:
                if name.endswith((".cc", ".py")):
                    with open(os.path.join(folder, name)) as file:
                        yield file.read()


class Table(unittest.TestCase):
    def test_each_kind_has_tests_that_exist(self):
        text = "\n".join(sources())
        there = {".".join(found) for found in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", text)}
        there |= set(re.findall(r"def (test_\w+)\(", text)) | {"soak"}
        with open(os.path.join(fleet.ROOT, "tests", "fault", "README.md")) as file:
            table = file.read().split("## Kinds of fault")[1]
        rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| ")][1:]
        self.assertEqual(len(rows), KINDS)
        for kind, tests, _ in rows:
            named = re.findall(r"`([^`]+)`", tests)
            self.assertTrue(named, kind)
            self.assertEqual([t for t in named if t not in there], [], kind)


if __name__ == "__main__":
    unittest.main()

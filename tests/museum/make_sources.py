"""make_sources.py SOURCE_DIR OUT_DIR FILE...: copies the files with the museum's mutants built in.

Also writes OUT_DIR/tests/museum/catalogue.inc: an entry for each mutant, with the seed of seeds.txt. A mutant whose text the
sources do not have any more is marked, and its test says so.
"""

import os
import sys

from mutants import MUTANTS, RACES

source_dir, out_dir, *files = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
seeds = {}
with open(os.path.join(here, "seeds.txt"), encoding="utf-8") as lines:
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, seed = line.split()
            seeds[name] = int(seed)

texts = {}
for path in files:
    with open(os.path.join(source_dir, path), encoding="utf-8") as f:
        texts[path] = f.read()
patched = set()
entries = []
for number, (name, rule, patches) in enumerate(MUTANTS):
    missing = ""
    for path, old, new in patches:
        if texts.get(path, "").count(old) == 1:
            texts[path] = texts[path].replace(old, new.replace("MUTANT", f"(::tandem::museum::active == {number})"))
            patched.add(path)
        else:
            missing = missing or path
    entries.append(f'{{"{name}", "{rule}", "{missing}", {seeds.get(name, 1)}, "{RACES.get(name, "")}"}},\n')


def write(path, text):
    path = os.path.join(out_dir, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


for path, text in texts.items():
    head = f'#include "tests/museum/active.h"\n#line 1 "{path}"\n' if path in patched else ""
    write(path, head + text)
write("tests/museum/catalogue.inc", "".join(entries))

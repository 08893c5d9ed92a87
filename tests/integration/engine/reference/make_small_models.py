"""Makes small_models.json from the files that build/release/tests/write_small_models writes: needs numpy.

    build/release/tests/write_small_models FOLDER && python3 make_small_models.py FOLDER > small_models.json
"""

import json
import pathlib
import random
import sys

from decoder import Decoder
from gguf import Gguf

TOKENS = 60


def main():
    lines = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")):
        gguf = Gguf(path)
        vocab = gguf.infos["token_embd.weight"][0][0]
        ids = random.Random(path.stem).choices(range(vocab), k=TOKENS)
        decoder = Decoder(gguf)
        for token in ids:
            logits = decoder.step(token)
        lines.append(json.dumps({"name": path.stem, "ids": ids, "logits": [round(float(x), 5) for x in logits]}))
    print("{\"models\": [\n" + ",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()

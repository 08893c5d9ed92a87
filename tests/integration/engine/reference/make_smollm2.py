"""Makes smollm2.json from SmolLM2-135M-Instruct.Q4_1.gguf: needs numpy.

    python3 make_smollm2.py MODEL.gguf > smollm2.json
"""

import json
import re
import sys

import numpy as np

from decoder import Decoder
from gguf import Gguf

CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" \
       "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    CHAT.format("Name three colours of the rainbow."),
    "The river ran slowly past the old mill, and",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "1, 1, 2, 3, 5, 8, 13,",
    "Water",
]
GREEDY = 32
# ASCII's share of the pattern: digits one by one, then GPT-2's.
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[0-9]| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?=[0-9])|\s+(?!\S)|\s+")


def byte_alphabet():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return {b: chr(b if b in keep else next(other)) for b in range(256)}


def encode(meta, text):
    """Byte-level BPE of ASCII text, with <|...|> parsed as special tokens."""
    ids = {token: i for i, token in enumerate(meta["tokenizer.ggml.tokens"])}
    ranks = {pair: i for i, pair in enumerate(meta["tokenizer.ggml.merges"])}
    alphabet = byte_alphabet()
    out = []
    for part in re.split(r"(<\|\w+\|>)", text):
        if part in ids and part.startswith("<|"):
            out.append(ids[part])
            continue
        for piece in PIECES.findall(part):
            symbols = [alphabet[b] for b in piece.encode()]
            while len(symbols) > 1:
                rank, i = min((ranks.get(f"{a} {b}", 1 << 30), i) for i, (a, b) in enumerate(zip(symbols, symbols[1:])))
                if rank == 1 << 30:
                    break
                symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
            out += [ids[s] for s in symbols]
    return out


def main():
    gguf = Gguf(sys.argv[1])
    decoder = Decoder(gguf)
    prompts = []
    for text in PROMPTS:
        ids = encode(gguf.meta, text)
        decoder.reset()
        for token in ids:
            logits = decoder.step(token)
        best = np.argsort(-logits, kind="stable")[:20]
        entry = {"text": text, "ids": ids, "top20": [[int(i), round(float(logits[i]), 5)] for i in best],
                 "greedy32": [], "margin": []}
        for _ in range(GREEDY):
            first, second = np.argsort(-logits, kind="stable")[:2]
            entry["greedy32"].append(int(first))
            entry["margin"].append(round(float(logits[first] - logits[second]), 5))
            logits = decoder.step(int(first))
        prompts.append(entry)
        print(len(prompts), "of", len(PROMPTS), file=sys.stderr)
    print("{\"model\": \"SmolLM2-135M-Instruct.Q4_1.gguf, float32 weights, float64 arithmetic\", \"prompts\": [")
    print(",\n".join(json.dumps(p) for p in prompts))
    print("]}")


if __name__ == "__main__":
    main()

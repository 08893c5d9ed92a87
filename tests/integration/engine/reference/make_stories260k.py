"""Makes stories260k.json from llama2.c's stories260K.bin and tok512.bin: needs numpy.

    python3 make_stories260k.py stories260K.bin tok512.bin > stories260k.json

Reads llama2.c's file as its README describes it and generates greedily after the begin-of-sequence token.
"""

import json
import struct
import sys

import numpy as np

TOKENS = 200


def main():
    raw = open(sys.argv[1], "rb").read()
    dim, ff, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", raw[:28])
    data, at = np.frombuffer(raw, np.float32, offset=28).astype(np.float64), 0

    def take(*shape):
        nonlocal at
        at += int(np.prod(shape))
        return data[at - int(np.prod(shape)):at].reshape(shape)

    size = dim // heads
    kv = size * kv_heads
    embed = take(vocab, dim)
    norm1 = take(layers, dim)
    wq, wk, wv, wo = take(layers, dim, dim), take(layers, kv, dim), take(layers, kv, dim), take(layers, dim, dim)
    norm2 = take(layers, dim)
    w1, w2, w3 = take(layers, ff, dim), take(layers, dim, ff), take(layers, ff, dim)
    last = take(dim)

    def norm(x, w):
        return x / np.sqrt(np.mean(x * x) + 1e-5) * w

    def rotate(x, position):
        angle = position * 10000.0 ** (-np.arange(0, size, 2) / size)
        z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
        return np.stack([z.real, z.imag], axis=2).reshape(x.shape)

    keys, values = [[] for _ in range(layers)], [[] for _ in range(layers)]
    ids = [1]
    for position in range(TOKENS):
        x = embed[ids[-1]]
        for i in range(layers):
            h = norm(x, norm1[i])
            keys[i].append(rotate((wk[i] @ h).reshape(kv_heads, size), position))
            values[i].append((wv[i] @ h).reshape(kv_heads, size))
            q = rotate((wq[i] @ h).reshape(heads, size), position)
            k, v = np.repeat(keys[i], heads // kv_heads, axis=1), np.repeat(values[i], heads // kv_heads, axis=1)
            score = np.einsum("hd,thd->ht", q, k) / np.sqrt(size)
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            weight /= weight.sum(axis=1, keepdims=True)
            x = x + wo[i] @ np.einsum("ht,thd->hd", weight, v).reshape(dim)
            h = norm(x, norm2[i])
            gate = w1[i] @ h
            x = x + w2[i] @ (gate / (1 + np.exp(-gate)) * (w3[i] @ h))
        ids.append(int(np.argmax(embed @ norm(x, last))))

    pieces, raw, at = [], open(sys.argv[2], "rb").read(), 4
    for _ in range(vocab):
        length = struct.unpack_from("<fi", raw, at)[1]
        piece = raw[at + 8:at + 8 + length]
        pieces.append(bytes([int(piece[3:5], 16)]) if piece.startswith(b"<0x") else piece)
        at += 8 + length
    text = b"".join(pieces[i] for i in ids[1:]).decode("utf-8", "replace").lstrip(" ")
    print(json.dumps({"ids": ids, "text": text}, indent=1))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes dequantize.txt: blocks of every stored type and the values they stand for.

Each value is found from its own index alone (where do my bits lie?), with every product and sum
rounded to f32, from the layouts in ggml-common.h. No code is shared with the library under test.

  python3 tests/testing/reference/dequantize.py > tests/testing/reference/dequantize.txt

One line a block: type, the block in hex, its values as the hex of little-endian f32.
"""
import random
import struct


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def i8(byte):
    return byte - 256 if byte > 127 else byte


def nibble(block, at, e):
    """Element e of 32: byte e mod 16, the high half from 16 on."""
    return block[at + e % 16] >> (4 * (e // 16)) & 15


def bit(block, at, index):
    return block[at + index // 8] >> (index % 8) & 1


def q4_0(b, e):
    return f32(half(b, 0) * (nibble(b, 2, e) - 8))


def q4_1(b, e):
    return f32(f32(half(b, 0) * nibble(b, 4, e)) + half(b, 2))


def q5_0(b, e):
    return f32(half(b, 0) * (nibble(b, 6, e) + 16 * bit(b, 2, e) - 16))


def q5_1(b, e):
    return f32(f32(half(b, 0) * (nibble(b, 8, e) + 16 * bit(b, 4, e))) + half(b, 2))


def q8_0(b, e):
    return f32(half(b, 0) * i8(b[2 + e]))


def k_scale(b, sub):
    """Scale and min of sub-block `sub`: six bits each, packed in bytes 4 to 15."""
    s = b[4:16]
    if sub < 4:
        return s[sub] % 64, s[sub + 4] % 64
    return s[sub + 4] % 16 + 16 * (s[sub - 4] // 64), s[sub + 4] // 16 + 16 * (s[sub] // 64)


def k_value(b, e, q):
    scale, low = k_scale(b, e // 32)
    return f32(f32(f32(half(b, 0) * scale) * q) - f32(half(b, 2) * low))


def k_nibble(b, at, e):
    return b[at + 32 * (e // 64) + e % 32] >> (4 * (e // 32 % 2)) & 15


def q4_k(b, e):
    return k_value(b, e, k_nibble(b, 16, e))


def q5_k(b, e):
    return k_value(b, e, k_nibble(b, 48, e) + 16 * (b[16 + e % 32] >> (e // 32) & 1))


def q6_k(b, e):
    within = e % 128
    low = b[64 * (e // 128) + within % 64] >> (4 * (within // 64)) & 15
    high = b[128 + 32 * (e // 128) + within % 32] >> (2 * (within // 32)) & 3
    return f32(f32(half(b, 208) * i8(b[192 + e // 16])) * (low + 16 * high - 32))


# type: elements, bytes, where its f16 scales lie, value
TYPES = {
    "F32": (1, 4, [], lambda b, e: struct.unpack("<f", b)[0]),
    "F16": (1, 2, [0], lambda b, e: half(b, 0)),
    "BF16": (1, 2, [], lambda b, e: struct.unpack("<f", b"\0\0" + b)[0]),
    "Q4_0": (32, 18, [0], q4_0),
    "Q4_1": (32, 20, [0, 2], q4_1),
    "Q5_0": (32, 22, [0], q5_0),
    "Q5_1": (32, 24, [0, 2], q5_1),
    "Q8_0": (32, 34, [0], q8_0),
    "Q4_K": (256, 144, [0, 2], q4_k),
    "Q5_K": (256, 176, [0, 2], q5_k),
    "Q6_K": (256, 210, [208], q6_k),
}


def main():
    source = random.Random(20240229)
    for name, (elems, size, scales, value) in TYPES.items():
        for _ in range(2 if elems > 1 else 4):
            block = bytearray(source.randrange(256) for _ in range(size))
            for at in scales:
                struct.pack_into("<e", block, at, source.uniform(-0.2, 0.2))
            if name in ("F32", "BF16"):
                block[-1] = 0x3D + 0x80 * source.randrange(2)  # an ordinary magnitude
            block = bytes(block)
            values = b"".join(struct.pack("<f", value(block, e)) for e in range(elems))
            print(name, block.hex(), values.hex())


main()

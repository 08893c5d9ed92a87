"""Reads GGUF files and turns their quantised tensors into floats, with numpy alone.

Written from the description of the format (ggml's docs/gguf.md and the block layouts of ggml-common.h), apart from
the C++ reader, so that each checks the other.
"""

import struct

import numpy as np

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
# ggml type: (elements, bytes) of a block
BLOCKS = {
    0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    12: (256, 144), 13: (256, 176), 14: (256, 210),
}


class Gguf:
    """The metadata of a file, and its tensors by name as float32 [rows, cols] or [cols]."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 0
        assert self._take(4).tobytes() == b"GGUF"
        assert self._scalar("<I") in (2, 3)
        tensors, pairs = self._scalar("<Q"), self._scalar("<Q")
        self.meta = {}
        for _ in range(pairs):
            key = self._string()
            self.meta[key] = self._value(self._scalar("<I"))
        self.infos = {}
        for _ in range(tensors):
            name = self._string()
            dims = [self._scalar("<Q") for _ in range(self._scalar("<I"))]
            self.infos[name] = (dims[::-1], self._scalar("<I"), self._scalar("<Q"))
        align = self.meta.get("general.alignment", 32)
        self.base = (self.at + align - 1) // align * align

    def _take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def _scalar(self, fmt):
        return struct.unpack(fmt, self._take(struct.calcsize(fmt)).tobytes())[0]

    def _string(self):
        return self._take(self._scalar("<Q")).tobytes().decode("utf-8", "surrogateescape")

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            inner, count = self._scalar("<I"), self._scalar("<Q")
            return [self._value(inner) for _ in range(count)]
        return self._scalar(SCALARS[kind])

    def __contains__(self, name):
        return name in self.infos

    def __getitem__(self, name):
        shape, kind, offset = self.infos[name]
        elems, size = BLOCKS[kind]
        count = int(np.prod(shape))
        raw = self.data[self.base + offset:self.base + offset + count // elems * size]
        return dequantize(kind, np.asarray(raw).reshape(-1, size)).reshape(shape)


def half(raw):
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def nibbles(raw):
    """Low nibbles of all bytes, then high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


def fifth_bits(raw):
    word = np.ascontiguousarray(raw).view(np.uint32)
    return (((word >> np.arange(32, dtype=np.uint32)) & 1) * 16).astype(np.float32)


def k_scales(raw):
    """The eight 6-bit scales and mins that Q4_K and Q5_K keep in 12 bytes."""
    s = raw.astype(np.int32)
    low, mid, high = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    scale = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    least = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], axis=1)
    return scale.astype(np.float32), least.astype(np.float32)


def dequantize(kind, b):
    n = len(b)
    if kind == 0:
        return np.ascontiguousarray(b).view(np.float32)
    if kind == 1:
        return half(b)
    if kind == 30:
        return (np.ascontiguousarray(b).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kind == 2:
        return half(b[:, :2]) * (nibbles(b[:, 2:]) - 8)
    if kind == 3:
        return half(b[:, :2]) * nibbles(b[:, 4:]) + half(b[:, 2:4])
    if kind == 6:
        return half(b[:, :2]) * (nibbles(b[:, 6:]) + fifth_bits(b[:, 2:6]) - 16)
    if kind == 7:
        return half(b[:, :2]) * (nibbles(b[:, 8:]) + fifth_bits(b[:, 4:8])) + half(b[:, 2:4])
    if kind == 8:
        return half(b[:, :2]) * np.ascontiguousarray(b[:, 2:]).view(np.int8).astype(np.float32)
    if kind in (12, 13):
        d, dmin = half(b[:, :2]), half(b[:, 2:4])
        scale, least = k_scales(b[:, 4:16])
        packed = b[:, 16:] if kind == 12 else b[:, 48:]
        pairs = packed.reshape(n, 4, 32)
        q = np.stack([pairs & 15, pairs >> 4], axis=2).reshape(n, 8, 32).astype(np.float32)
        if kind == 13:
            bits = b[:, 16:48].reshape(n, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1
            q += bits * np.float32(16)
        return (d * scale)[:, :, None] * q - (dmin * least)[:, :, None]
    if kind == 14:
        low = b[:, :128].reshape(n, 2, 2, 32)
        high = b[:, 128:192].reshape(n, 2, 1, 32)
        scale = np.ascontiguousarray(b[:, 192:208]).view(np.int8).astype(np.float32)
        d = half(b[:, 208:210])
        low = np.concatenate([low & 15, low >> 4], axis=2)
        high = high >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
        q = ((low | high << 4).astype(np.float32) - 32).reshape(n, 16, 16)
        return (d * scale)[:, :, None] * q
    raise ValueError(f"ggml type {kind}")

"""A decoder of the Llama family in numpy: float32 weights as the file says, everything else in float64.

One token after another against a growing cache, no batching and no blocks: nothing in common with the engine but the
equations.
"""

import numpy as np


class Shape:
    """What GGUF metadata says of the network."""

    def __init__(self, gguf):
        arch = gguf.meta["general.architecture"]

        def get(key, default=None):
            return gguf.meta.get(f"{arch}.{key}", default)

        self.layers = get("block_count")
        self.hidden = get("embedding_length")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.head_dim = get("attention.key_length", self.hidden // self.heads)
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.window = get("attention.sliding_window", 0)
        self.interleaved = arch == "llama"
        theta = get("rope.freq_base", 10000.0)
        half = self.head_dim // 2
        self.freq = theta ** (-np.arange(half) / half)
        self.rope_scale = 1.0
        if "rope_freqs.weight" in gguf:
            self.freq = self.freq / gguf["rope_freqs.weight"].astype(np.float64)
        kind, factor = get("rope.scaling.type", "none"), get("rope.scaling.factor", 1.0)
        if kind == "linear":
            self.freq = self.freq / factor
        if kind == "yarn":
            original = get("rope.scaling.original_context_length")

            def dimension(turns):
                return half * np.log(original / (turns * 2 * np.pi)) / np.log(theta)

            low, high = max(np.floor(dimension(32.0)), 0), min(np.ceil(dimension(1.0)), self.head_dim - 1)
            ramp = np.clip((np.arange(half) - low) / max(high - low, 1e-3), 0, 1)
            self.freq = self.freq * (1 - ramp) + self.freq / factor * ramp
            self.rope_scale = 0.1 * np.log(factor) + 1


class Decoder:
    def __init__(self, gguf):
        self.gguf, self.shape = gguf, Shape(gguf)
        self.weights = {}
        self.reset()

    def reset(self):
        self.keys = [[] for _ in range(self.shape.layers)]
        self.values = [[] for _ in range(self.shape.layers)]

    def weight(self, name):
        if name not in self.weights:
            self.weights[name] = self.gguf[name].astype(np.float64)
        return self.weights[name]

    def project(self, x, name):
        y = self.weight(name + ".weight") @ x
        return y + self.weight(name + ".bias") if name + ".bias" in self.gguf else y

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.shape.eps) * self.weight(name)

    def rotate(self, x, position):
        angle = position * self.shape.freq
        cos, sin = np.cos(angle) * self.shape.rope_scale, np.sin(angle) * self.shape.rope_scale
        if self.shape.interleaved:
            a, b = x[:, 0::2], x[:, 1::2]
            return np.stack([a * cos - b * sin, a * sin + b * cos], axis=2).reshape(x.shape)
        a, b = np.split(x, 2, axis=1)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=1)

    def attention(self, x, layer):
        s, blk = self.shape, f"blk.{layer}."
        q = self.project(x, blk + "attn_q").reshape(s.heads, s.head_dim)
        k = self.project(x, blk + "attn_k").reshape(s.kv_heads, s.head_dim)
        v = self.project(x, blk + "attn_v").reshape(s.kv_heads, s.head_dim)
        if blk + "attn_q_norm.weight" in self.gguf:
            q, k = self.norm(q, blk + "attn_q_norm.weight"), self.norm(k, blk + "attn_k_norm.weight")
        position = len(self.keys[layer])
        self.keys[layer].append(self.rotate(k, position))
        self.values[layer].append(v)
        q = self.rotate(q, position)
        first = max(0, position + 1 - s.window) if s.window else 0
        keys, values = np.array(self.keys[layer][first:]), np.array(self.values[layer][first:])
        out = []
        for head in range(s.heads):
            kv = head // (s.heads // s.kv_heads)
            score = keys[:, kv] @ q[head] / np.sqrt(s.head_dim)
            weight = np.exp(score - score.max())
            out.append(weight @ values[:, kv] / weight.sum())
        return self.project(np.concatenate(out), blk + "attn_output")

    def step(self, token):
        """Logits after one more token."""
        x = self.weight("token_embd.weight")[token]
        for layer in range(self.shape.layers):
            blk = f"blk.{layer}."
            x = x + self.attention(self.norm(x, blk + "attn_norm.weight"), layer)
            h = self.norm(x, blk + "ffn_norm.weight")
            gate, up = self.project(h, blk + "ffn_gate"), self.project(h, blk + "ffn_up")
            x = x + self.project(gate / (1 + np.exp(-gate)) * up, blk + "ffn_down")
        head = "output" if "output.weight" in self.gguf else "token_embd"
        return self.project(self.norm(x, "output_norm.weight"), head)

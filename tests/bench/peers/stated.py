"""The ratios that Tandem must reach: all of them, here alone."""

CASES = ["prefill 512", "prefill 2048", "decode 1", "decode 8", "decode 32"]

# Tandem's tokens/s over the peer's, by peer.
RATIOS = {
    "llama.cpp": {"prefill 512": 6, "prefill 2048": 5, "decode 1": 1.8, "decode 8": 6, "decode 32": 9},
    "llama.cpp Q4_0": {"prefill 512": 2.5, "prefill 2048": 2.5, "decode 1": 1.4, "decode 8": 4, "decode 32": 6},
    "vllm": {"prefill 512": 2.5, "prefill 2048": 2, "decode 1": 6, "decode 8": 4, "decode 32": 4.5},
}

# Of the machine's ceiling: bare multiply-adds for prompts, bytes read for one stream.
SHARES = {"prefill 512": 0.7, "prefill 2048": 0.7, "decode 1": 0.7}

# While a 2048-token prompt is prefilled beside 8 streams: the gap between a stream's tokens over the undisturbed one.
GAP_P50 = 2
GAP_P99 = 3

"""One round of the mixed load against an OpenAI-compatible server; prints JSON.

    mixed_client.py URL MODEL SECONDS SEED

Eight streams generate behind prompts of 128 tokens. After SECONDS of them alone a prompt of 2048 tokens arrives; the
gaps between a stream's tokens from then until that prompt's first token are the disturbed ones. A gap that has begun
by then counts whole.
"""
import json
import random
import selectors
import socket
import sys
import time
import urllib.parse

STREAMS, PROMPT, LONG_PROMPT = 8, 128, 2048
MOST_TOKENS = 2000   # longer than the round: a stream that ends early is an error
TOKEN_IDS = (300, 8000)  # common words in byte-level vocabularies
SETTLE = 0.5
PATIENCE = 60.0


class Stream:
    """A request and the times of its events."""

    def __init__(self, url, body, selector):
        self.times, self.ended, self.buffer = [], False, b""
        payload = json.dumps(body).encode()
        self.socket = socket.create_connection((url.hostname, url.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = time.monotonic()
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                            + f"Content-Length: {len(payload)}\r\n\r\n".encode() + payload)
        self.socket.setblocking(False)
        selector.register(self.socket, selectors.EVENT_READ, self)

    def read(self):
        now = time.monotonic()
        data = self.socket.recv(1 << 16)
        if not data:
            raise SystemExit(f"the server closed a stream after {len(self.times)} tokens: {self.buffer[-300:]}")
        lines = (self.buffer + data).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                raise SystemExit(f"the server answered {line.decode(errors='replace')}: {data[-300:]}")
            if line.startswith(b"data: [DONE]"):
                self.ended = True
            elif line.startswith(b"data: "):
                self.times.append(now)


def body(model, tokens, count, rng):
    return {"model": model, "prompt": [rng.randint(*TOKEN_IDS) for _ in range(tokens)], "max_tokens": count,
            "temperature": 0, "ignore_eos": True, "stream": True, "cache_prompt": False}


def until(selector, done, what):
    limit = time.monotonic() + PATIENCE
    while not done():
        for key, _ in selector.select(timeout=0.01):
            key.data.read()
        if time.monotonic() > limit:
            raise SystemExit(f"waited {PATIENCE:.0f} s for {what}")


def gaps(streams, begin, end):
    """Milliseconds between events of each stream, of gaps that lie in part between `begin` and `end`."""
    found = []
    for stream in streams:
        found += [(b - a) * 1e3 for a, b in zip(stream.times, stream.times[1:]) if b > begin and a < end]
    return sorted(found)


def one_text_a_token(streams, begin, end):
    """Those that got about as many events as the others while undisturbed. One that got fewer generates characters of
    several tokens, of which only the last has a text to send: no gaps of the server."""
    counts = [sum(begin <= t <= end for t in stream.times) for stream in streams]
    return [stream for stream, count in zip(streams, counts) if count >= 0.8 * max(counts)]


def quantile(values, q):
    return values[min(len(values) - 1, int(q * len(values)))]


def main():
    url, model, seconds, seed = urllib.parse.urlparse(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    selector = selectors.DefaultSelector()
    streams = [Stream(url, body(model, PROMPT, MOST_TOKENS, rng), selector) for _ in range(STREAMS)]
    until(selector, lambda: all(len(s.times) > 4 for s in streams), "the first tokens of all streams")
    begin = time.monotonic() + SETTLE
    until(selector, lambda: time.monotonic() > begin + seconds, "the quiet time")
    arrival = time.monotonic()
    long_one = Stream(url, body(model, LONG_PROMPT, 4, rng), selector)
    until(selector, lambda: long_one.times, "the long prompt's first token")
    first_token = long_one.times[0]
    until(selector, lambda: all(s.times[-1] > first_token for s in streams), "a token of every stream behind it")
    if any(s.ended for s in streams):
        raise SystemExit("a stream ended within the round")
    timed = one_text_a_token(streams, begin, arrival)
    before, meanwhile = gaps(timed, begin, arrival), gaps(timed, arrival, first_token)
    print(json.dumps({
        "before_p50_ms": quantile(before, 0.5), "before_p99_ms": quantile(before, 0.99),
        "gap_p50_ms": quantile(meanwhile, 0.5), "gap_p99_ms": quantile(meanwhile, 0.99), "gap_max_ms": meanwhile[-1],
        "gaps": len(meanwhile), "streams": len(timed), "ttft_ms": (first_token - long_one.sent) * 1e3}))


if __name__ == "__main__":
    main()

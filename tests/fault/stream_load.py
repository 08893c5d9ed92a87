"""Streams completions and keeps, of each, what came when."""

import asyncio
import dataclasses
import json
import random
import threading
import time
import urllib.parse


@dataclasses.dataclass
class Prompt:
    """A request whose output is known once `text` is set: same prompt, parameters and seed, same text."""
    number: int
    ids: list
    seed: int
    max_tokens: int
    temperature: float = 0.9
    text: str = None
    tokens: int = None

    def body(self):
        return {"prompt": self.ids, "max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed,
                "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, "timings": True}


def prompts(count, seed, shortest=16, longest=400, fewest=64, most=256):
    """Distinct prompts; ids are those of a small generated vocabulary."""
    draw = random.Random(seed)
    return [Prompt(i, [draw.randrange(3, 200) for _ in range(draw.randint(shortest, longest))], draw.getrandbits(31),
                   draw.randint(fewest, most), draw.choice((0.7, 1.0, 1.3))) for i in range(count)]


@dataclasses.dataclass
class Stream:
    """What came of one request. Times are time.monotonic() seconds."""
    prompt: Prompt
    began: float
    ended: float = None
    id: str = ""
    pieces: list = dataclasses.field(default_factory=list)
    times: list = dataclasses.field(default_factory=list)
    reasons: list = dataclasses.field(default_factory=list)
    usage: dict = None
    timings: dict = None
    done: bool = False
    left: bool = False  # the client went away on purpose
    error: str = None

    @property
    def text(self):
        return "".join(self.pieces)

    def gaps(self):
        """(from, to) between what came, the wait for the first piece included."""
        marks = [self.began, *self.times] + ([self.ended] if self.ended else [])
        return list(zip(marks, marks[1:]))

    def verdict(self):
        """'ok', 'left', 'failed', 'different' or 'duplicated'."""
        if self.left:
            return "left" if self.prompt.text.startswith(self.text) else "different"
        if self.error is None and not self.done:
            self.error = "ended without [DONE]"
        if self.error is None and len(self.reasons) != 1:
            self.error = f"finish reasons: {self.reasons}"
        if self.error is not None:
            return "failed"
        if self.text == self.prompt.text:
            usage = self.usage or {}
            counted = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
            return "ok" if counted == (len(self.prompt.ids), self.prompt.tokens) else "different"
        want, got = self.prompt.text, self.text
        same = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
        repeated = any(got[same:] == want[back:] for back in range(same))
        return "duplicated" if repeated else "different"


class Loader:
    """Open or closed loop of streams against one URL; runs in the thread that calls run()."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.streams = []
        self.running = set()

    async def stream(self, prompt, leave_after=None):
        """Asks once. leave_after: pieces after which the client closes its connection."""
        seen = Stream(prompt, time.monotonic())
        self.streams.append(seen)
        self.running.add(id(seen))
        writer = None
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            body = json.dumps(prompt.body()).encode()
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                         b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await self._read(reader, seen, leave_after)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            seen.error = seen.error or f"connection: {type(error).__name__} {error}"
        finally:
            seen.ended = time.monotonic()
            self.running.discard(id(seen))
            if writer:
                writer.close()
        return seen

    async def _read(self, reader, seen, leave_after):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        if status != 200:
            seen.error = f"HTTP {status}: " + (await reader.read(4096)).decode(errors="replace")
            return
        chunked = "transfer-encoding: chunked" in head.lower()
        while not seen.done and seen.error is None:
            if chunked:
                size = int((await reader.readline()).split(b";")[0] or b"0", 16)
                data = await reader.readexactly(size + 2)
            else:
                size = len(data := await reader.readline())
            if size == 0:
                return
            for line in data.decode(errors="replace").split("\n"):
                if line.startswith("data: "):
                    self._event(line[6:], seen)
            if leave_after is not None and len(seen.pieces) >= leave_after:
                seen.left = True
                return

    @staticmethod
    def _event(data, seen):
        now = time.monotonic()
        if data == "[DONE]":
            seen.done = True
            return
        event = json.loads(data)
        if "error" in event:
            seen.error = "event: " + json.dumps(event["error"])
            return
        seen.id = event.get("id", seen.id)
        seen.usage = event.get("usage") or seen.usage
        seen.timings = event.get("timings") or seen.timings
        for choice in event.get("choices", ()):
            if choice.get("text"):
                seen.pieces.append(choice["text"])
                seen.times.append(now)
            if choice.get("finish_reason"):
                seen.reasons.append(choice["finish_reason"])

    async def all_of(self, some, concurrency):
        """Closed loop: each prompt once."""
        gate = asyncio.Semaphore(concurrency)

        async def one(prompt):
            async with gate:
                return await self.stream(prompt)
        return await asyncio.gather(*(one(p) for p in some))

    async def open_loop(self, draw_prompt, rate, seed, stop, leave_share=0.0):
        """Poisson arrivals until stop() is true; returns when all streams have ended."""
        draw = random.Random(seed)
        tasks = set()
        next_at = time.monotonic()
        while not stop():
            next_at += draw.expovariate(rate())
            await asyncio.sleep(max(0.0, min(1.0, next_at - time.monotonic())))
            if next_at > time.monotonic():
                next_at = time.monotonic()
                continue
            leave = draw.randint(0, 60) if draw.random() < leave_share else None
            task = asyncio.create_task(self.stream(draw_prompt(draw), leave))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)


class Leavers(threading.Thread):
    """Clients that begin streams and go away: Poisson arrivals, each leaves after up to 60 pieces."""

    def __init__(self, url, some, rate, seed):
        super().__init__(daemon=True)
        self.loader = Loader(url)
        self._some, self._rate, self._seed = some, rate, seed
        self._stopped = threading.Event()

    def run(self):
        if self._rate > 0:
            asyncio.run(self.loader.open_loop(lambda draw: draw.choice(self._some), lambda: self._rate, self._seed,
                                              self._stopped.is_set, leave_share=1.0))

    def stop(self):
        self._stopped.set()


def learn(url, some, concurrency=24):
    """Fills in the outputs from an undisturbed run; returns its streams."""
    loader = Loader(url)
    streams = asyncio.run(loader.all_of(some, concurrency))
    for stream in streams:
        if stream.error or not stream.done or len(stream.reasons) != 1:
            raise AssertionError(f"the undisturbed run failed: {stream.error} {stream.reasons}")
        stream.prompt.text = stream.text
        stream.prompt.tokens = stream.usage["completion_tokens"]
    return streams

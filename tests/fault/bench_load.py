"""Loads a cluster through `tandem bench`, whose threads are not this program's."""

import dataclasses
import json
import os
import re
import signal
import subprocess

import fleet


def command(url, *words):
    return [os.path.join(fleet.BUILD, "bin", "tandem"), "bench", "--url", url, "--timings", *words]


@dataclasses.dataclass
class Ended:
    """One request of a load. Times are time.monotonic() seconds."""
    number: int
    began: float
    ended: float
    gaps: list  # (from, to): the wait for the first text, and the longest pause after it
    verdict: str  # ok, left, failed, different, duplicated
    detail: str
    attempts: int = 1
    placements: int = 1


def verdict_of(record, expected):
    if record["outcome"] != "ok":
        return "failed"
    if not record["difference"]:
        return "ok"
    # Text that came before is sent again where the streams part.
    found = re.search(r'at byte (\d+): .*, got (".*")$', record["difference"], re.S)
    if found and len(again := json.loads(found.group(2))) > 3:
        before = expected["expected"].encode()[:int(found.group(1))].decode(errors="ignore")
        if again[:8] in before:
            return "duplicated"
    return "different"


def ended_of(record, expected, start):
    first = record["first_s"]
    began, end = start + record["sent_s"], start + record["end_s"]
    gaps = [(began, start + first if first is not None else end)]
    if first is not None:
        gaps.append((start + record["pause_at_s"], start + record["pause_at_s"] + record["pause_ms"] / 1000))
    detail = " ".join(str(record[k]) for k in ("outcome", "http_status", "detail", "difference") if record[k])
    return Ended(record["index"], began, end, gaps, verdict_of(record, expected),
                 f"line {record['line']}, {record['events']} texts, {record['tokens']} tokens: {detail}",
                 record.get("attempts", 1), record.get("placements", 1))


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class BenchLoad:
    """An open loop of the prompts in a file, with the answers that are expected of them."""

    def __init__(self, folder, prompts):
        """prompts: stream_load.Prompt; without answers yet."""
        self.folder, self.prompts = folder, prompts
        self.process = None
        path = lambda name: os.path.join(folder, name)
        self.asked, self.expected = path("prompts.jsonl"), path("expected.jsonl")
        self.records, self.summary = path("records.jsonl"), path("bench.json")
        with open(self.asked, "w") as file:
            for p in prompts:
                file.write(json.dumps({"tokens": p.ids, "max_tokens": p.max_tokens, "temperature": p.temperature,
                                       "seed": p.seed, "ignore_eos": True}) + "\n")

    def learn(self, url, concurrency=24):
        """The undisturbed run. Returns (requests a second, its requests)."""
        done = subprocess.run(command(url, "--prompts", self.asked, "--record-expected", self.expected, "--concurrency",
                                      str(concurrency), "--json", self.summary, "--records", self.records),
                              capture_output=True, text=True)
        if not os.path.exists(self.expected):
            raise AssertionError(f"the undisturbed run failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        for prompt, line in zip(self.prompts, read_lines(self.expected), strict=True):
            prompt.text, prompt.tokens = line["expected"], line["expected_tokens"]
        return len(self.prompts) / self._summary()["elapsed_s"], self.ended()

    def start(self, url, rate, seed, most_running):
        self.log = open(os.path.join(self.folder, "bench.log"), "w")
        self.process = subprocess.Popen(
            command(url, "--prompts", self.expected, "--rate", f"{rate:.3f}", "--duration", "24h", "--seed", str(seed),
                    "--max-in-flight", str(most_running), "--json", self.summary, "--records", self.records),
            stdout=self.log, stderr=subprocess.STDOUT)

    def stop_sending(self):
        self.process.send_signal(signal.SIGTERM)

    def running(self):
        return self.process.poll() is None

    def wait(self, patience):
        """Until every stream has ended; returns what is odd about the load itself, as text, and the most streams
        that ran at a time."""
        try:
            self.process.wait(patience)
        finally:
            self.process.kill()
            self.log.close()
        summary = self._summary()
        return "; ".join(summary["invalid_because"]), summary["generator"]["in_flight_max"]

    def _summary(self):
        with open(self.summary) as file:
            return json.load(file)

    def ended(self):
        start = self._summary()["started_monotonic_s"]
        expected = read_lines(self.expected)
        return [ended_of(r, expected[r["line"] - 1], start) for r in read_lines(self.records)]


def ended_of_stream(number, stream):
    """The same of a stream_load.Stream."""
    return Ended(number, stream.began, stream.ended, stream.gaps(), stream.verdict(), stream.error or "",
                 (stream.timings or {}).get("attempts", 1), (stream.timings or {}).get("placements", 1))

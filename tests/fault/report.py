"""Turns streams and faults into the figures that chaos prints."""

import collections

# A gap counts as caused by a fault when it contains the fault's beginning or begins soon after, and is this much
# longer than what the undisturbed run showed.
AFTER = 6.0
FLOOR = 0.25


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def line(values):
    """'p50 0.12 p99 0.80 max 0.91 s (n 40)'."""
    if not values:
        return "none"
    return (f"p50 {percentile(values, 0.5):.2f} p99 {percentile(values, 0.99):.2f} "
            f"max {max(values):.2f} s (n {len(values)})")


def pauses(streams, faults, floor):
    """{kind of fault: [longest pause of each stream that it made wait]}; a gap counts for one fault only."""
    out = collections.defaultdict(list)
    moments = [f for f in faults if f.began is not None]
    for stream in streams:
        worst = {}
        for start, end in stream.gaps:
            if end - start < floor:
                continue
            near = [f for f in moments if f.began <= end and start <= (f.ended or f.began) + AFTER]
            inside = [f for f in near if start <= f.began <= end]
            for fault in (inside or near)[:1]:
                worst[fault.number] = max(worst.get(fault.number, 0), end - start)
        for fault in moments:
            if fault.number in worst:
                out[fault.kind + (f" ({fault.how})" if fault.how else "")].append(worst[fault.number])
    return out


class Report:
    """streams: bench_load.Ended. Times in the log count from begun_at."""

    def __init__(self, streams, faults, begun_at, floor):
        self.streams, self.faults, self.begun_at = streams, faults, begun_at
        self.floor = max(FLOOR, floor)
        self.verdicts = collections.Counter(s.verdict for s in streams)
        self.leaks = []

    @property
    def passed(self):
        bad = sum(self.verdicts[v] for v in ("failed", "different", "duplicated"))
        return not bad and not self.leaks and self.verdicts["ok"] > 0

    def figures(self):
        kinds = collections.Counter(f.kind for f in self.faults if f.began is not None)
        yield "faults      " + ", ".join(f"{k} {n}" for k, n in sorted(kinds.items())) + f" (in all {sum(kinds.values())})"
        yield (f"streams     {len(self.streams)}, ok {self.verdicts['ok']}, left by their client {self.verdicts['left']}, "
               f"with further attempts {sum(s.attempts > 1 for s in self.streams)}, "
               f"with further placements {sum(s.placements > 1 for s in self.streams)}")
        yield (f"wrong       failed {self.verdicts['failed']}, different {self.verdicts['different']}, "
               f"duplicated {self.verdicts['duplicated']}")
        for kind, values in sorted(pauses(self.streams, self.faults, self.floor).items()):
            yield f"pause       {kind:14} {line(values)}, gaps over {self.floor:.2f} s"
        if long := max(((b - a, a) for s in self.streams for a, b in s.gaps), default=None):
            yield f"pause       longest of all {long[0]:.2f} s, from {long[1] - self.begun_at:.3f}"

    def failures(self, most=20):
        bad = [s for s in self.streams if s.verdict not in ("ok", "left")]
        for s in bad[:most]:
            yield (f"  {s.verdict} request {s.number}, {s.began - self.begun_at:.3f} … {s.ended - self.begun_at:.3f}, "
                   f"attempts {s.attempts}, placements {s.placements}: {s.detail}")
        if len(bad) > most:
            yield f"  … and {len(bad) - most} more"

    def log(self):
        for f in self.faults:
            if f.began is not None:
                ended = f"{f.ended - self.begun_at:.3f}" if f.ended else "…"
                yield f"  {f.began - self.begun_at:8.3f} … {ended} {f} {f.note}"

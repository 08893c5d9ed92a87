"""Router, prefill and decode nodes, each in a network of its own; any pair is cut, and heals early or late."""

import asyncio
import tempfile
import time
import unittest

import fleet
import lab
from stream_load import Loader, learn, prompts

RP, RD, PD = ("router", "prefill-0"), ("router", "decode-0"), ("prefill-0", "decode-0")
EARLY = 0.7  # seconds; the silence that counts as a loss is 2 s


@unittest.skipIf(lab.why_not(), lab.why_not())
class PartitionCase(unittest.TestCase):
    NODES = 2
    TRANSPORT = "ucx-tcp"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-partition-")
        cls.addClassCleanup(cls.folder.cleanup)
        nodes = [f"{role}-{i}" for role in ("prefill", "decode") for i in range(cls.NODES)]
        cls.lab = cls.enterClassContext(lab.Lab(["router", *nodes]))
        model = fleet.generated_model(cls.folder.name, "layers=8", "hidden=192", "context=2048")
        interface = ("--kv-interface", cls.lab.INTERFACE) if cls.TRANSPORT == "ucx-tcp" else ()
        cls.fleet = cls.enterClassContext(fleet.Fleet(
            model, cls.folder.name, cls.NODES, cls.NODES, cls.TRANSPORT, listen=cls.lab.address, prefix=cls.lab.prefix,
            node_flags=interface, router_flags=("--allow-public",)))
        cls.prompts = prompts(32, seed=1, fewest=150, most=300)
        learn(cls.fleet.url, cls.prompts)
        fleet.wait_until(cls.fleet.whole, "all pairs usable")

    def streams_through(self, pairs, late):
        """Streams run while `pairs` are cut; returns them, ended."""
        loader = Loader(self.fleet.url)

        def noticed():
            return not self.fleet.whole()

        async def eventually(condition, what):
            deadline = time.monotonic() + fleet.PATIENCE
            while not await asyncio.to_thread(condition):
                self.assertLess(time.monotonic(), deadline, what)
                await asyncio.sleep(0.02)

        async def go():
            load = asyncio.create_task(loader.all_of(self.prompts, len(self.prompts) // 2))
            await eventually(lambda: sum(bool(s.pieces) for s in loader.streams) >= len(self.prompts) // 4, "tokens")
            await asyncio.to_thread(self.lab.cut, *pairs)
            try:
                if late:
                    await eventually(noticed, "the router knows of the cut")
                else:
                    await asyncio.sleep(EARLY)
            finally:
                await asyncio.to_thread(self.lab.heal, *pairs)
            return await load
        return asyncio.run(go())

    def check(self, *pairs):
        for late in (False, True):
            with self.subTest(pairs=pairs, healed="late" if late else "early"):
                streams = self.streams_through(pairs, late)
                bad = [(s.verdict(), s.error) for s in streams if s.verdict() != "ok"]
                self.assertEqual(bad, [])
                fleet.wait_until(self.fleet.whole, "all pairs usable again")
                fleet.wait_until(lambda: not self.fleet.leftovers(), f"books back to zero: {self.fleet.leftovers()}")
                longest = max(b - a for s in streams for a, b in s.gaps())
                print(f"cut {pairs} healed {'late' if late else 'early'}: longest pause {longest:.2f} s, moved "
                      f"{sum(s.timings['attempts'] > 1 for s in streams)} of {len(streams)}", flush=True)


class Partition(PartitionCase):
    def test_router_and_prefill(self):
        self.check(RP)

    def test_router_and_decode(self):
        self.check(RD)

    def test_prefill_and_decode(self):
        self.check(PD)

    def test_all_three(self):
        self.check(RP, RD, PD)


class PartitionOfTheOnlyPair(Partition):
    """No other node can take over: the streams wait until the cut heals."""
    NODES = 1


class PartitionOverSharedMemory(PartitionCase):
    """Only the control connections can be cut: the source could go on writing into blocks that its sink gave up."""
    TRANSPORT = "ucx-shm"

    def test_prefill_and_decode(self):
        self.check(PD)

    def test_all_three(self):
        self.check(RP, RD, PD)


if __name__ == "__main__":
    unittest.main()

"""Restarts under load: the router's, which ends its streams, and every node's in turn, which nobody notices."""

import asyncio
import re
import signal
import tempfile
import time
import unittest

import fleet
import threads
from bench_load import BenchLoad
from kinds_test import FaultCase
from served import Served
from stream_load import Loader, prompts

# Of a node's report in its log.
HELD = ("routers", "used_blocks", "leases", "tasks", "placements", "draining_placements", "reserved", "sequences",
        "quarantined_reservations", "verifying", "outstanding_bytes")


class RouterRestart(FaultCase):
    PREFILL = DECODE = 2
    MODEL = ("layers=12", "hidden=192", "context=4096")

    def held_by(self, name):
        """What a node holds by its own word, which needs no router: {what: number} of what is not zero."""
        member = self.cluster.members[name]
        before = len(re.findall("node.report", member.log()))
        self.cluster.send(member.pid, signal.SIGUSR1)
        reports = fleet.wait_until(lambda: re.findall("node.report.*", member.log())[before:], f"{name} reports")
        numbers = dict(re.findall(r"(\w+)=(-?\d+)", reports[-1]))
        self.assertIn("routers", numbers)
        return {what: int(numbers[what]) for what in HELD if numbers.get(what, "0") != "0"}

    def wait_until_nodes_are_free(self):
        """Returns the seconds it took; PROTOCOL.md says 2 s of silence, 5 s in all."""
        began = time.monotonic()
        for name in self.cluster.nodes():
            fleet.wait_until(lambda: not self.held_by(name), f"{name} lets go of the router's: {self.held_by(name)}")
        return time.monotonic() - began

    def streams_over(self, disturb):
        some = self.learned(24, seed=1, fewest=300, most=500)
        streams = self.run_while(some, disturb, after=0.5)
        for s in streams:
            self.assertTrue(s.prompt.text.startswith(s.text), "an end is all that a restart may bring")
        return streams

    def serve_again(self):
        router = self.cluster.members["router"]
        router.process.wait()
        router.start()
        router.await_port()
        fleet.wait_until(self.cluster.whole, "the new router uses every pair")
        fleet.wait_until(lambda: not self.cluster.leftovers(), "all books back to zero")
        self.assert_all_right(asyncio.run(Loader(self.cluster.url).all_of(self.learned(12, seed=2, most=100), 12)))

    def test_killed_router(self):
        streams = self.streams_over(lambda: self.cluster.kill("router"))
        self.assertTrue(all(s.error is not None for s in streams if not s.done))
        self.assertTrue(any(s.error is not None for s in streams))
        print(f"nodes were free after {self.wait_until_nodes_are_free():.2f} s", flush=True)
        self.serve_again()

    def test_router_told_to_stop(self):
        streams = self.streams_over(lambda: self.cluster.members["router"].signal(signal.SIGTERM))
        self.assertTrue(all(s.error is not None or s.verdict() == "ok" for s in streams))
        print(f"nodes were free after {self.wait_until_nodes_are_free():.2f} s", flush=True)
        self.serve_again()

    def test_stopped_router_is_missed_and_its_streams_go_on_when_it_wakes(self):
        router = self.cluster.members["router"]

        def stop():
            router.signal(signal.SIGSTOP)
            print(f"nodes were free after {self.wait_until_nodes_are_free():.2f} s", flush=True)
            router.signal(signal.SIGCONT)
        self.assert_all_right(self.streams_over(stop))


class StuckStep(FaultCase):
    """A health check that passes while steps are stuck: the engine's thread stands still, the others run."""
    PREFILL, DECODE = 1, 2
    MODEL = ("layers=12", "hidden=192", "context=4096")

    def frozen_engine(self, name):
        tids = threads.named(self.cluster.pid(name), "engine")
        self.assertTrue(tids, f"{name} has no thread named engine")
        return threads.Frozen(tids)

    def test_streams_leave_a_decode_node_whose_steps_are_stuck(self):
        try:
            with self.frozen_engine("decode-1"):
                pass
        except PermissionError as error:
            self.skipTest(f"single threads cannot be stopped here: {error}")
        some = self.learned(32, seed=3, fewest=300, most=600)
        frozen = self.frozen_engine("decode-0")
        try:
            streams = self.run_while(some, frozen.__enter__)
            self.assert_all_right(streams)
            self.assertTrue(any(s.timings["attempts"] > 1 for s in streams), "no stream was on the stuck node")
        finally:
            frozen.__exit__()


class HungRouter(unittest.TestCase):
    """A router whose event loop stands still, though its process lives and its port takes connections."""

    def test_it_is_killed_and_the_next_one_serves(self):
        with tempfile.TemporaryDirectory(prefix="tandem-hung-") as folder:
            model = fleet.generated_model(folder, "layers=2", "context=2048")
            with Served(model, folder, prefill=1, decode=1, flags=("--stuck-after", "5s")) as cluster:
                pid = cluster.pid("router")
                frozen = threads.Frozen(threads.named(pid, "io"))
                try:
                    frozen.__enter__()
                except PermissionError as error:
                    self.skipTest(f"single threads cannot be stopped here: {error}")
                try:
                    fleet.wait_until(lambda: "killing it" in cluster.said(), "the supervisor has noticed")
                finally:
                    frozen.__exit__()  # who traces a thread keeps its dead process from being reaped
                self.assertRegex(cluster.said(), rf"router \(pid {pid}\) said nothing")
                fleet.wait_until(lambda: cluster.ready("router") and cluster.pid("router") != pid, "a new router")
                fleet.wait_until(lambda: self.serves(cluster), "the new router uses the pair")
            self.assertEqual(cluster.ended_badly, {})

    @staticmethod
    def serves(cluster):
        try:
            return cluster.whole()
        except OSError:  # it does not listen yet
            return False


class RollingRestart(unittest.TestCase):
    """Every node in turn is drained and comes back, under load; no stream fails."""

    def test_every_node(self):
        with tempfile.TemporaryDirectory(prefix="tandem-rolling-") as folder:
            model = fleet.generated_model(folder, "layers=12", "hidden=192", "context=2048")
            with Served(model, folder) as cluster:
                load = BenchLoad(folder, prompts(60, seed=4, fewest=200, most=500))
                capacity, _ = load.learn(cluster.url)
                load.start(cluster.url, capacity, seed=4, most_running=100)
                for name in cluster.nodes():
                    fleet.wait_until(lambda: cluster.metrics()["tandem_router_requests"] >= 8, "streams run")
                    pid = cluster.pid(name)
                    cluster.drain(name)
                    fleet.wait_until(lambda: cluster.ready(name) and cluster.pid(name) != pid, f"a new {name}")
                    fleet.wait_until(cluster.whole, f"{name} is used again")
                load.stop_sending()
                odd, most = load.wait(fleet.PATIENCE)
                ended = load.ended()
                longest = max(b - a for s in ended for a, b in s.gaps)
                print(f"{len(ended)} streams, at most {most} at a time, longest pause {longest:.2f} s, moved "
                      f"{sum(s.attempts > 1 for s in ended)}; {odd}", flush=True)
                self.assertEqual([(s.verdict, s.detail) for s in ended if s.verdict != "ok"], [])
                self.assertGreater(len(ended), 0)
                fleet.wait_until(lambda: not cluster.leftovers(), "all books back to zero")
            self.assertEqual(cluster.ended_badly, {})


if __name__ == "__main__":
    unittest.main()

"""Kinds of fault that serving systems have shipped, each as a test on real processes named after it.

README.md has the whole table; what is not here lives in the simulator or beside the state machines.
"""

import asyncio
import json
import os
import signal
import socket
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import books
import fleet
import network
from stream_load import Loader, learn, prompts


def events(cluster, body, headers=()):
    """Parsed events of one streamed completion, as they come, until the connection ends."""
    request = urllib.request.Request(cluster.url + "/v1/completions", json.dumps({"stream": True, **body}).encode(),
                                     {"Content-Type": "application/json", **dict(headers)})
    with urllib.request.urlopen(request, timeout=fleet.PATIENCE) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                data = line[6:].strip().decode()
                yield data if data == "[DONE]" else json.loads(data)


def text_of(seen):
    return "".join(c["text"] for e in seen if e != "[DONE]" for c in e.get("choices", ()))


def ids(count, salt):
    return [3 + (salt * 31 + i * i) % 190 for i in range(count)]


class FaultCase(unittest.TestCase):
    """A class of tests that share one cluster and leave it whole and quiet."""
    MODEL = ("layers=6", "context=4096")
    PREFILL = DECODE = 1
    FLAGS = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-fault-")
        cls.addClassCleanup(folder.cleanup)
        cls.shared_before = books.shared_files()
        model = fleet.generated_model(folder.name, *cls.MODEL)
        cls.cluster = cls.enterClassContext(fleet.start(model, folder.name, cls.PREFILL, cls.DECODE, **cls.FLAGS))

    def tearDown(self):
        fleet.wait_until(self.cluster.whole, "every pair usable")
        fleet.wait_until(lambda: not self.cluster.leftovers(), "all books back to zero")

    def learned(self, count, seed, **sizes):
        some = prompts(count, seed, **sizes)
        learn(self.cluster.url, some)
        return some

    def run_while(self, some, act, concurrency=64, after=0.25):
        """Streams all of `some`; calls act() in another thread once that share of them has tokens."""
        loader = Loader(self.cluster.url)

        async def go():
            load = asyncio.create_task(loader.all_of(some, concurrency))
            while sum(bool(s.pieces) for s in loader.streams) < len(some) * after:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(act)
            return await load
        return asyncio.run(go())

    def assert_all_right(self, streams):
        self.assertEqual([(s.verdict(), s.error, s.reasons, s.usage) for s in streams if s.verdict() != "ok"], [])


class Clients(FaultCase):
    """Faults that clients cause or see; one node of each kind."""

    def test_duplicate_request_ids_from_two_clients_are_not_mixed_up(self):
        bodies = [{"prompt": ids(40, i), "max_tokens": 120, "temperature": 1, "seed": i, "ignore_eos": True}
                  for i in range(8)]
        alone = [text_of(events(self.cluster, body)) for body in bodies]
        together = [None] * len(bodies)

        def ask(i):
            together[i] = text_of(events(self.cluster, bodies[i], {"X-Request-Id": "the same"}))
        asking = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        self.assertEqual(together, alone)

    def test_one_slow_client_does_not_stop_the_batch(self):
        some = self.learned(16, seed=2)
        host, port = self.cluster.url.removeprefix("http://").rsplit(":", 1)
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((host, int(port)))
            body = json.dumps({"prompt": ids(30, 1), "max_tokens": 4000, "ignore_eos": True, "stream": True,
                               "stream_options": {"include_usage": True, "continuous_usage_stats": True}}).encode()
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
            slow.recv(64)  # it has begun; from here on nothing is read
            self.assert_all_right(asyncio.run(Loader(self.cluster.url).all_of(some, 16)))

    def test_memory_of_finished_requests_does_not_grow_for_ever(self):
        def ask(count, seed):
            some = prompts(count, seed, longest=60, fewest=4, most=8)
            for stream in asyncio.run(Loader(self.cluster.url).all_of(some, 16)):
                self.assertIsNone(stream.error)
            fleet.wait_until(lambda: not self.cluster.leftovers(), "quiet")
            return {name: books.rss_kib(self.cluster.pid(name)) for name in self.cluster.names()}
        before = ask(1500, seed=3)  # caches and pools fill
        after = ask(1500, seed=4)
        for name in before:
            self.assertLess(after[name] - before[name], 1500, f"KiB more in {name} after 1500 requests more")

    def test_metrics_labels_do_not_grow_with_request_ids(self):
        def ask(count, start):
            for i in range(start, start + count):
                body = {"prompt": ids(5, i), "max_tokens": 2, "user": f"user-{i}"}
                list(events(self.cluster, body, {"X-Request-Id": f"request-{i}"}))
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    list(events(self.cluster, {**body, "model": f"model-{i}"}))
                refused.exception.close()
            return set(self.cluster.metrics())
        self.assertEqual(ask(3, 0), ask(30, 3))

    def test_no_error_event_comes_after_the_last_token(self):
        for victim in ("decode-0", "prefill-0"):
            seen = []
            for event in events(self.cluster, {"prompt": ids(40, 3), "max_tokens": 40, "ignore_eos": True,
                                               "stream_options": {"include_usage": True}}):
                seen.append(event)
                if event != "[DONE]" and any(c.get("finish_reason") for c in event["choices"]):
                    self.cluster.kill(victim)
            ended = next(i for i, e in enumerate(seen) if any(c.get("finish_reason") for c in e["choices"]))
            self.assertEqual([e if e == "[DONE]" else list(e["choices"]) for e in seen[ended + 1:]], [[], "[DONE]"])
            fleet.wait_until(lambda: self.cluster.ready(victim), f"{victim} is back")
            fleet.wait_until(self.cluster.whole, "every pair usable")


class Deaths(FaultCase):
    """Processes that die; two nodes of each kind, so that streams go on."""
    PREFILL = DECODE = 2
    MODEL = ("layers=12", "hidden=192", "context=2048")

    def kill_under_load(self, *victims, **sizes):
        some = self.learned(48, seed=5, **sizes)
        return self.run_while(some, lambda: [self.cluster.kill(v) for v in victims])

    def test_no_stream_ends_without_finish_reason(self):
        streams = self.kill_under_load("decode-0", "prefill-0", fewest=1, most=200)
        self.assertEqual([s.reasons for s in streams], [["length"]] * len(streams))
        self.assert_all_right(streams)

    def test_usage_is_not_counted_twice_after_a_retry(self):
        streams = self.kill_under_load("decode-1", fewest=150, most=200)
        self.assertTrue(any(s.timings["attempts"] > 1 for s in streams), "no stream was tried again")
        for s in streams:
            self.assertEqual((s.usage["prompt_tokens"], s.usage["completion_tokens"]),
                             (len(s.prompt.ids), s.prompt.max_tokens))

    def test_connections_work_after_the_peers_restart(self):
        some = self.learned(24, seed=6)
        for name in self.cluster.nodes():
            pid = self.cluster.pid(name)
            self.cluster.kill(name)
            fleet.wait_until(lambda: self.cluster.pid(name) != pid and self.cluster.ready(name), f"{name} is back")
        fleet.wait_until(self.cluster.whole, "every pair usable")
        streams = asyncio.run(Loader(self.cluster.url).all_of(some, 12))
        self.assert_all_right(streams)
        for role in ("prefill_node", "decode_node"):
            self.assertEqual(len({s.timings[role] for s in streams}), 2, role)

    def test_port_is_not_taken_after_a_crash(self):
        some = self.learned(16, seed=7)
        for name in ("prefill-0", "decode-0"):
            address, pid = self.cluster.members[name].address, self.cluster.pid(name)
            self.assert_all_right(self.run_while(some, lambda: self.cluster.kill(name)))
            fleet.wait_until(lambda: self.cluster.pid(name) != pid and self.cluster.ready(name), f"{name} is back")
            with open(self.cluster.members[name].port_file) as file:
                self.assertEqual(file.read().strip(), address)

    def test_no_shared_memory_is_left_over_after_kill_9(self):
        some = self.learned(16, seed=8)
        self.assert_all_right(self.run_while(some, lambda: [self.cluster.kill(n) for n in ("decode-0", "decode-1")]))
        fleet.wait_until(lambda: all(self.cluster.ready(n) for n in self.cluster.nodes()), "all are back")
        fleet.wait_until(self.cluster.whole, "every pair usable")
        self.assertEqual(books.shared_files() - self.shared_before, set())

    def test_no_request_is_lost_between_accept_and_enqueue_on_drain(self):
        some = self.learned(64, seed=9, fewest=4, most=40)
        for name in ("prefill-0", "decode-1"):
            pid = self.cluster.pid(name)
            streams = self.run_while(some, lambda: self.cluster.restart(name), concurrency=16)
            self.assert_all_right(streams)
            fleet.wait_until(lambda: self.cluster.pid(name) != pid and self.cluster.ready(name), f"{name} is back")
            fleet.wait_until(self.cluster.whole, "every pair usable")


class LongSteps(FaultCase):
    """A model so slow that a prefill outlasts leases and silences."""
    MODEL = ("layers=12", "hidden=512", "heads=8", "context=8192")
    FLAGS = {"kv_memory": "256M", "restart_after": 0.1}

    def test_timeouts_are_not_shorter_than_a_long_prefill(self):
        body = {"prompt": ids(7000, 1), "max_tokens": 4, "ignore_eos": True, "timings": True}
        timings = [e["timings"] for e in events(self.cluster, body) if e != "[DONE]" and e.get("timings")][-1]
        print(f"a prefill of {timings['prefill_ms'] / 1000:.1f} s", flush=True)
        self.assertEqual((timings["attempts"], timings["placements"]), (1, 1))
        expired = {k: v for k, v in self.cluster.metrics().items() if "leases_expired" in k and v}
        self.assertEqual(expired, {})

    def test_a_cancel_does_not_wait_for_the_prefill_to_end(self):
        computed = lambda: self.cluster.metrics()['tandem_node_computed_tokens{node="prefill-0"}']
        before = computed()
        with self.assertRaises(TimeoutError):
            request = urllib.request.Request(
                self.cluster.url + "/v1/completions", json.dumps({"prompt": ids(8000, 2), "max_tokens": 4}).encode(),
                {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=0.5)
        fleet.wait_until(lambda: not self.cluster.leftovers(), "all books back to zero")
        self.assertLess(computed() - before, 8000)

    def test_a_poison_request_does_not_walk_through_the_fleet(self):
        """Whatever takes it up dies, as with a prompt that crashes a kernel; after four it is given up."""
        killed, ended = [], []
        body = {"prompt": ids(30, 4), "max_tokens": 2000, "ignore_eos": True}
        for event in events(self.cluster, body):
            if event != "[DONE]" and event.get("choices"):
                if not ended and self.cluster.pid("decode-0") not in killed:
                    killed.append(self.cluster.pid("decode-0"))
                    self.cluster.kill("decode-0")
            else:
                ended.append(event)
        self.assertEqual(len(killed), 4, "decode nodes died of it")
        self.assertIn("error", ended[0])
        fleet.wait_until(lambda: self.cluster.ready("decode-0"), "decode-0 is back")


class Surroundings(unittest.TestCase):
    """What the machine or its operator does around the processes; each has a cluster of its own."""

    def cluster(self, **flags):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="tandem-fault-"))
        model = fleet.generated_model(folder, "layers=12", "hidden=192", "context=2048")
        return self.enterContext(fleet.start(model, folder, 1, 1, **flags))

    def streams(self, cluster, **sizes):
        some = prompts(24, 10, **sizes)
        learn(cluster.url, some)
        streams = asyncio.run(Loader(cluster.url).all_of(some, 12))
        self.assertEqual([(s.verdict(), s.error) for s in streams if s.verdict() != "ok"], [])
        fleet.wait_until(lambda: not cluster.leftovers(), "all books back to zero")
        return streams

    def test_clock_changes_expire_no_lease(self):
        jumper = os.path.join(fleet.BUILD, "tests", "libclock_jumper.so")
        self.assertTrue(os.path.exists(jumper), jumper)
        cluster = self.cluster(prefix=lambda name: ("env", "LD_PRELOAD=" + jumper))
        seen = set()
        fleet.wait_until(lambda: len(seen.add(self.created(cluster) // 3600) or seen) > 1, "the clock has jumped")
        streams = self.streams(cluster, fewest=300, most=500)
        self.assertEqual({(s.timings["attempts"], s.timings["placements"]) for s in streams}, {(1, 1)})
        self.assertEqual({k: v for k, v in cluster.metrics().items() if "leases_expired" in k and v}, {})

    @staticmethod
    def created(cluster):
        return next(iter(events(cluster, {"prompt": ids(5, 1), "max_tokens": 1})))["created"]

    def test_no_silent_fall_back_to_a_slow_transport(self):
        """An environment that prefers TCP changes nothing where shared memory was chosen."""
        cluster = self.cluster(prefix=lambda name: ("env", "UCX_TLS=tcp,self"))
        streams = self.streams(cluster)
        self.assertGreater(sum(s.timings["transfer_bytes"] for s in streams), 0)
        pids = (cluster.pid("prefill-0"), cluster.pid("decode-0"))
        self.assertEqual(len(network.connections(*pids)) // 2, 1, "the control connection alone")

    def test_of_two_nodes_with_the_same_name_one_is_used(self):
        cluster = self.cluster()
        first = cluster.members["decode-0"]
        path = lambda name: os.path.join(cluster.folder, name + ".port")
        twin = fleet.Member("decode-twin", lambda address: [
            path("decode-twin") if word == path("decode-0") else word for word in first.argv(None)], cluster.folder)
        twin.start()
        self.addCleanup(twin.signal, signal.SIGTERM)
        twin.await_port()
        self.restart_router(cluster, {**cluster.members, "decode-twin": twin})
        fleet.wait_until(lambda: cluster.metrics().get("tandem_router_usable_pairs") == 1, "one of the two is used")
        self.streams(cluster)
        self.assertEqual(cluster.metrics()["tandem_router_usable_pairs"], 1)

    def restart_router(self, cluster, members):
        cluster.members = members
        cluster.router.signal(signal.SIGTERM)
        cluster.router.process.wait()
        cluster.router.start()
        cluster.router.await_port()
        cluster.members = {name: member for name, member in members.items() if name != "decode-twin"}


class Credit(FaultCase):
    """A decode node so small that clients who do not read hold all of it."""
    FLAGS = {"kv_memory": "1M"}

    def test_no_party_waits_for_anothers_credit_for_ever(self):
        some = self.learned(24, seed=11, longest=100, fewest=16, most=64)
        host, port = self.cluster.url.removeprefix("http://").rsplit(":", 1)
        slow = [socket.socket() for _ in range(8)]
        for i, client in enumerate(slow):
            self.addCleanup(client.close)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            body = json.dumps({"prompt": ids(200, i), "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assert_all_right(asyncio.run(Loader(self.cluster.url).all_of(some, 24)))


if __name__ == "__main__":
    unittest.main()

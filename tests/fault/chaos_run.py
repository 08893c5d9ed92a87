"""One run of a cluster under load and faults, from its start to its books."""

import time

import fleet
from bench_load import BenchLoad, ended_of_stream
from books import Books
from faults import Injector
from report import Report, percentile
from served import Served
from stream_load import Leavers, prompts

MOST_RUNNING = 200  # beyond it the load holds arrivals back, so that a slow machine is late and never refuses
STREAM_PATIENCE = 700  # seconds after the last fault; a request's deadline is 600


def add_options(parser, load):
    parser.add_argument("--seed", type=int, default=1, help="decides prompts, arrivals and faults (1)")
    parser.add_argument("--transport", choices=("shm", "tcp"), default="shm", help="how KV travels (shm)")
    parser.add_argument("--prefill", type=int, default=2, help="prefill nodes (2)")
    parser.add_argument("--decode", type=int, default=2, help="decode nodes (2)")
    parser.add_argument("--prompts", type=int, default=200, help="distinct requests (200)")
    parser.add_argument("--load", type=float, default=load, help=f"arrivals, as a share of the capacity ({load})")
    parser.add_argument("--leave", type=float, default=0.05, help="share of clients that leave early (0.05)")
    parser.add_argument("--model", default="layers=12,hidden=256,context=2048", help="settings of the generated model")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a run that passed")


def conclude(report, seed, folder):
    """Prints the report; the exit status."""
    for text in report.figures():
        print(text)
    for what, before, now in report.leaks:
        print(f"LEAKED      {what}: {before} -> {now}")
    if report.passed:
        print("passed")
        return 0
    print(f"FAILED with seed {seed}; logs in {folder}\nfaults:")
    for text in (*report.log(), "streams:", *report.failures()):
        print(text)
    return 1


class Run:
    """One chaos run: cluster, load, faults, report."""

    def __init__(self, options, faults, folder):
        """options: see add_options; faults: what faults.plan() made."""
        self.options, self.faults, self.folder = options, faults, folder
        self.begun_at = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.begun_at:8.3f} {text}", flush=True)

    def run(self, watch=None):
        """watch(run, cluster, injector): called while faults are injected."""
        o = self.options
        model = fleet.generated_model(self.folder, *o.model.split(","))
        cluster = Served(model, self.folder, o.prefill, o.decode, o.transport)
        with cluster:
            load = BenchLoad(self.folder, prompts(o.prompts, o.seed))
            capacity, calm = load.learn(cluster.url)
            self.rate = capacity * o.load
            self.floor = 3 * percentile([b - a for s in calm for a, b in s.gaps], 0.5)
            fleet.wait_until(lambda: not cluster.leftovers(), "all books back to zero before the first fault")
            start = Books.of(cluster)
            self.say(f"undisturbed run: {len(calm)} streams; now {self.rate:.1f} arrivals/s")
            report = self._disturb(cluster, load, watch)
            self._audit(cluster, start, report)
        if cluster.ended_badly:
            report.leaks.append(("processes that did not end with 0", 0, cluster.ended_badly))
        return report

    def _disturb(self, cluster, load, watch):
        o = self.options
        injector = Injector(cluster, self.faults, self.say)
        leavers = Leavers(cluster.url, load.prompts, self.rate * o.leave, o.seed)
        load.start(cluster.url, self.rate * (1 - o.leave), o.seed, MOST_RUNNING)
        leavers.start()
        try:
            injector.start()
            if watch:
                watch(self, cluster, injector)
            injector.join()
        finally:
            load.stop_sending()
            leavers.stop()
        self.say("all faults done; waiting for the streams that still run")
        odd, most = load.wait(STREAM_PATIENCE)
        leavers.join()
        self.say(f"all streams ended; at most {most} ran at a time" + (f"; the load itself: {odd}" if odd else ""))
        streams = load.ended() + [ended_of_stream(f"leaver {i}", s) for i, s in enumerate(leavers.loader.streams)]
        return Report(streams, injector.faults, self.begun_at, self.floor)

    def _audit(self, cluster, start, report):
        try:
            fleet.wait_until(lambda: all(cluster.ready(n) for n in cluster.names()), "all processes serve again")
            fleet.wait_until(cluster.whole, "every pair of nodes is usable again")
            fleet.wait_until(lambda: not cluster.leftovers(), "quiet")
        except AssertionError:
            report.leaks.append(("books", {}, cluster.leftovers()))
        end = Books.of(cluster)
        try:  # connections of the last streams and of nodes that came back close a moment later
            fleet.wait_until(lambda: not Books.of(cluster).leaks_since(start), "descriptors back", 30)
        except AssertionError:
            report.leaks += Books.of(cluster).leaks_since(start)
        for name in sorted(end.pids):
            same = end.pids[name] == start.pids[name]
            print(f"books       {name:10} {'the same process' if same else 'restarted       '} "
                  f"descriptors {start.fds[name]} -> {end.fds[name]}, RSS {start.rss[name] >> 10} -> "
                  f"{end.rss[name] >> 10} MiB")
        print(f"books       /dev/shm {len(start.files)} -> {len(end.files)} files, {start.shm >> 10} -> "
              f"{end.shm >> 10} KiB; blocks, leases, reservations: {'left ' + str(cluster.leftovers()) if cluster.leftovers() else 'all zero'}")

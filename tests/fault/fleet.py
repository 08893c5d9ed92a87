"""Starts the programs of a cluster one by one, so that a test can kill, cut and restart each of them."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TANDEM_BUILD", os.path.join(ROOT, "build", "release"))
# How long a test waits for what must happen; nothing is asserted about how soon it does.
PATIENCE = 120

# Everything of a cluster's books that is zero when no request is left.
IDLE = re.compile(
    r"tandem_(node_(used_blocks|quarantined_blocks|leases|outstanding_bytes|tasks|waiting_room|placements|"
    r"draining_placements|reserved|sequences|stalled|quarantined_reservations|verifying)|"
    r"router_(requests|queued_requests))(\{|$)")


def wait_until(condition, what, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen in {patience} s: {what}")
        time.sleep(0.02)
    return value


def generated_model(folder, *settings):
    """A small model with random weights; needs nothing from outside."""
    path = os.path.join(folder, "tiny.gguf")
    subprocess.run([os.path.join(BUILD, "tests", "make_test_model"), "llama", "gguf", path, *settings], check=True)
    return path


class Member:
    """One process of the fleet. A restart takes the same port, as a supervisor's does."""

    def __init__(self, name, argv, folder, prefix=()):
        self.name, self.folder, self.prefix = name, folder, prefix
        self.argv = argv
        self.port_file = os.path.join(folder, name + ".port")
        self.log_path = os.path.join(folder, name + ".log")
        self.address = None
        self.process = None
        self.lives = 0

    def start(self):
        if os.path.exists(self.port_file):
            os.remove(self.port_file)
        self.lives += 1
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen([*self.prefix, *self.argv(self.address)], stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def await_port(self):
        def told():
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}; see {self.log_path}")
            return os.path.exists(self.port_file) and open(self.port_file).read().strip()
        self.address = wait_until(told, f"{self.name} is ready")
        return self.address

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive:
            self.process.send_signal(number)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()


class Views:
    """What a cluster's router tells about it; needs url and nodes()."""

    def metrics(self):
        """{'name{labels}': value}."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def whole(self):
        """Whether every prefill node reaches every decode node."""
        pairs = 1
        for role in ("prefill", "decode"):
            pairs *= sum(1 for name in self.nodes() if name.startswith(role))
        return self.metrics().get("tandem_router_usable_pairs") == pairs

    def leftovers(self):
        """What of the nodes' and the router's books is not back to zero, or which node tells none."""
        metrics = self.metrics()
        silent = {f"{name} tells no books": 1 for name in self.nodes()
                  if not any(m.startswith("tandem_node_used_blocks{") and f'"{name}"' in m for m in metrics)}
        return silent | {name: value for name, value in metrics.items() if IDLE.match(name) and value != 0}

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Fleet(Views):
    """Prefill and decode nodes and a router; dead nodes are started again while `supervise` is on."""

    def __init__(self, model, folder, prefill=2, decode=2, transport="ucx-shm", kv_memory="24M", node_flags=(),
                 router_flags=(), listen=lambda name: "127.0.0.1", prefix=lambda name: (), restart_after=0.3):
        self.folder = folder
        self.members = {}
        self.events = []  # (time, text)
        self.restart_after = restart_after
        self.supervise = True
        self._stop = threading.Event()
        binary = lambda name: os.path.join(BUILD, "bin", name)

        def node(name, role):
            def argv(address):
                return [binary("tandem-" + role), "--model", model, "--name", name, "--listen",
                        address or listen(name) + ":0", "--port-file", os.path.join(folder, name + ".port"),
                        "--kv-memory", kv_memory, "--kv-transport", transport, "--threads", "1", *node_flags]
            return Member(name, argv, folder, prefix(name))

        for role, count in (("prefill", prefill), ("decode", decode)):
            for i in range(count):
                name = f"{role}-{i}"
                self.members[name] = node(name, role)

        def router_argv(address):
            host, port = (address or listen("router") + ":0").rsplit(":", 1)
            nodes = lambda role: ",".join(m.address for n, m in self.members.items() if n.startswith(role))
            return [binary("tandem-router"), "--model", model, "--host", host, "--port", port, "--port-file",
                    os.path.join(folder, "router.port"), "--prefill", nodes("prefill"), "--decode", nodes("decode"),
                    *router_flags]

        try:
            for member in self.members.values():
                member.start()
            for member in self.members.values():
                member.await_port()
            self.router = Member("router", router_argv, folder, prefix("router"))
            self.members["router"] = self.router
            self.router.start()
            self.url = "http://" + self.router.await_port()
            wait_until(self.whole, "every pair of nodes is usable")
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended_badly = self.close()

    def nodes(self):
        return [n for n in self.members if n != "router"]

    def names(self):
        return list(self.members)

    def pid(self, name):
        return self.members[name].pid

    def ready(self, name):
        """Whether the process runs and has said that it serves."""
        member = self.members[name]
        return member.alive and os.path.exists(member.port_file)

    def kill(self, name):
        self.members[name].signal(signal.SIGKILL)

    def restart(self, name):
        """SIGTERM; the supervision starts it again."""
        self.members[name].signal(signal.SIGTERM)

    def _watch(self):
        died = {}
        while not self._stop.wait(0.02):
            for name in self.nodes():
                member = self.members[name]
                if not self.supervise or member.alive:
                    died.pop(name, None)
                elif name not in died:
                    died[name] = time.monotonic()
                    self.events.append((time.monotonic(), f"{name} ended with {member.process.returncode}"))
                elif time.monotonic() - died[name] >= self.restart_after:
                    member.start()
                    self.events.append((time.monotonic(), f"{name} started again, pid {member.pid}"))

    def close(self):
        """SIGTERM to the router, then to the nodes; returns {name: status} of what did not exit with 0."""
        self.supervise = False
        self._stop.set()
        if hasattr(self, "_thread"):
            self._thread.join()
        bad = {}
        for group in (["router"], self.nodes()):
            group = [self.members[n] for n in group if n in self.members and self.members[n].process]
            for member in group:
                member.signal(signal.SIGCONT)
                member.signal(signal.SIGTERM)
            for member in group:
                try:
                    status = member.process.wait(60)
                except subprocess.TimeoutExpired:
                    member.process.kill()
                    status = f"killed: did not end in 60 s ({member.process.wait()})"
                if status != 0:
                    bad[member.name] = status
        return bad


def in_own_namespaces():
    """Runs this program again in namespaces of its own, when root: loopback and /dev/shm are then ours alone."""
    if os.geteuid() != 0 or os.environ.get("TANDEM_OWN_NAMESPACES"):
        return
    enter = ["unshare", "--net", "--mount", "sh", "-c",
             'ip link set lo up && mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"']
    if subprocess.run([*enter, "true"], capture_output=True).returncode != 0:
        return  # not allowed here; what needs it skips and says why
    os.environ["TANDEM_OWN_NAMESPACES"] = "1"
    os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def start(model, folder, prefill=2, decode=2, transport="shm", **more):
    return Fleet(model, folder, prefill, decode, "ucx-" + transport, **more)

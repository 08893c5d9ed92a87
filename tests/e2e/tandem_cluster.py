"""Starts `tandem serve` for a test and looks at what it leaves behind."""

import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TANDEM_BUILD", os.path.join(ROOT, "build", "release"))
# How long a test waits for what must happen; nothing is asserted about how soon it does.
PATIENCE = 120


def smollm2():
    """The quickstart's model, or None."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("TANDEM_MODEL_CACHE", os.path.join(cache, "tandem", "models"))
    path = os.path.join(folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if os.path.exists(path) else None


def generated_model(folder, *settings):
    """A small model with random weights; needs nothing from outside."""
    path = os.path.join(folder, "tiny.gguf")
    maker = os.path.join(BUILD, "tests", "make_test_model")
    subprocess.run([maker, "llama", "gguf", path, *settings], check=True)
    return path


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen in {PATIENCE} s: {what}")
        time.sleep(0.02)
    return value


def shared_memory_files():
    """All files of shared memory; the empty folder tandem-UID stays."""
    return {os.path.join(folder, name) for folder, _, names in os.walk("/dev/shm") for name in names}


class Cluster:
    """One running `tandem serve`; a context manager that stops it with SIGTERM."""

    def __init__(self, model, *flags):
        self.state = tempfile.TemporaryDirectory(prefix="tandem-e2e-")
        self.shared_before = shared_memory_files()
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bin", "tandem"), "serve", "--model", model, "--port", "0",
             "--kv-memory", "64M", "--state-folder", self.state.name, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.said = []
        self.url = None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"serving (\S+) at (\S+)/v1", line):
                self.model, self.url = found.groups()
            if "Ctrl-C stops everything" in line:
                break
        if self.url is None:
            self.process.wait()
            raise AssertionError("tandem serve did not start:\n" + "".join(self.said))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.state.cleanup()

    def stop(self, how=signal.SIGTERM):
        """Sends the signal and returns the exit status; again: the same status."""
        if self.process.stdout.closed:
            return self.process.returncode
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.said.append(self.process.stdout.read())
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.stdout.close()

    def children(self):
        """{name: pid} of the processes that serve."""
        pids = {}
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/children"):
            with open(path) as file:
                for pid in file.read().split():
                    try:
                        with open(f"/proc/{pid}/cmdline") as command:
                            words = command.read().split("\0")
                    except (FileNotFoundError, ProcessLookupError):
                        continue  # has just ended
                    if words == [""]:
                        continue  # ended, not reaped
                    name = words[words.index("--name") + 1] if "--name" in words else "router"
                    pids[name] = int(pid)
        return pids

    def log(self, name):
        with open(glob.glob(os.path.join(self.state.name, "*", name + ".log"))[0]) as file:
            return file.read()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def healthy(self):
        """Whether the router is up and knows a pair that works."""
        try:
            self.get("/health")
            return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def post(self, path, body):
        """(HTTP status, parsed answer)."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metrics(self):
        """{'name{labels}': value}."""
        rows = (line.rsplit(" ", 1) for line in self.get("/metrics").splitlines()
                if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def leftovers(self):
        """What of the nodes' and the router's books is not back to zero."""
        idle = re.compile(
            r"tandem_(node_(used_blocks|quarantined_blocks|leases|outstanding_bytes|tasks|waiting_room|placements|"
            r"draining_placements|reserved|sequences|stalled|quarantined_reservations|verifying)|"
            r"router_(requests|queued_requests))(\{|$)")
        metrics = self.metrics()
        assert any(name.startswith("tandem_node_used_blocks{") for name in metrics), "no node told its books"
        return {name: value for name, value in metrics.items()
                if idle.match(name) and value != 0}

    def wait_idle(self):
        wait_until(lambda: not self.leftovers(), "all books back to zero")

    def file_descriptors(self):
        return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in self.children().items()}

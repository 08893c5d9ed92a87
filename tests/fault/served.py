"""A cluster under `tandem serve`, whose supervisor starts again what died."""

import glob
import os
import re
import signal
import subprocess

import fleet

STARTED = re.compile(r"serving (\S+) at (\S+)/v1")


class Served(fleet.Views):
    """A context manager that stops it with SIGTERM; ended_badly then says what did not end well."""

    def __init__(self, model, folder, prefill=2, decode=2, transport="shm", kv_memory="24M", flags=()):
        self.folder, self.names_of_nodes = folder, [f"prefill-{i}" for i in range(prefill)]
        self.names_of_nodes += [f"decode-{i}" for i in range(decode)]
        self.said_path = os.path.join(folder, "serve.log")
        with open(self.said_path, "w") as said:
            self.process = subprocess.Popen(
                [os.path.join(fleet.BUILD, "bin", "tandem"), "serve", "--model", model, "--port", "0", "--prefill",
                 str(prefill), "--decode", str(decode), "--kv-transport", "ucx-" + transport, "--kv-memory", kv_memory,
                 "--threads", "1", "--state-folder", folder, "--give-up-after", "0", *flags],
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.url = fleet.wait_until(self._started, "tandem serve has started")
            fleet.wait_until(self.whole, "every pair of nodes is usable")
        except BaseException:
            self.process.kill()
            raise

    def said(self):
        with open(self.said_path, errors="replace") as file:
            return file.read()

    def _started(self):
        if self.process.poll() is not None:
            raise AssertionError(f"tandem serve ended with {self.process.returncode}:\n{self.said()}")
        found = STARTED.search(self.said())
        return found and found.group(2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended_badly = self.close()

    def close(self):
        """{name: what is wrong with how it ended}."""
        for pid in self._pids().values():
            self.send(pid, signal.SIGCONT)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(fleet.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed: it did not end"
        return {"tandem serve": status} if status != 0 else {}

    def nodes(self):
        return self.names_of_nodes

    def names(self):
        return [*self.names_of_nodes, "router"]

    def _pids(self):
        pids = {}
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/children"):
            try:
                with open(path) as file:
                    children = file.read().split()
                for pid in children:
                    with open(f"/proc/{pid}/cmdline") as command:
                        words = command.read().split("\0")
                    if words != [""]:  # ended, not reaped
                        pids[words[words.index("--name") + 1] if "--name" in words else "router"] = int(pid)
            except OSError:  # has just ended
                continue
        return pids

    def pid(self, name):
        return fleet.wait_until(lambda: self._pids().get(name), f"{name} runs")

    def ready(self, name):
        return name in self._pids()

    def kill(self, name):
        self.send(self.pid(name), signal.SIGKILL)

    def restart(self, name):
        """SIGTERM; the supervisor starts it again."""
        self.send(self.pid(name), signal.SIGTERM)

    def drain(self, name):
        """`tandem drain`, until the node has ended in order; the supervisor starts it again."""
        with open(glob.glob(os.path.join(self.folder, "serve-*", "admin.port"))[0]) as file:
            admin = "http://" + file.read().strip()

        def drained():
            done = subprocess.run([os.path.join(fleet.BUILD, "bin", "tandem"), "drain", name, "--admin", admin, "--wait"],
                                  capture_output=True, text=True)
            said.append(f"{done.returncode} {done.stdout}{done.stderr}")
            return done.returncode == 0
        said = []  # the router may not have met a new life yet
        try:
            fleet.wait_until(drained, f"tandem drain {name}")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{said[-1]}") from None

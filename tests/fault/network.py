"""Cuts the TCP connections between two processes of one network namespace."""

import os
import re
import shutil
import subprocess
import threading

TABLE = "tandem_cut"


def why_not():
    """Why connections cannot be cut here, or None."""
    if os.geteuid() != 0:
        return "cutting connections needs root"
    for tool in ("nft", "ss", "unshare"):
        if shutil.which(tool) is None:
            return f"cutting connections needs {tool} (Debian: nftables, iproute2, util-linux)"
    done = subprocess.run(["unshare", "--net", "nft", "add", "table", "inet", TABLE], capture_output=True, text=True)
    return f"nft does not work here: {done.stderr.strip()}" if done.returncode else None


def connections(first, second):
    """Port pairs, both directions, of the connections that the two processes have with each other."""
    listing = subprocess.run(["ss", "-tnpH", "state", "connected"], capture_output=True, text=True, check=True).stdout
    owned = {first: set(), second: set()}
    for line in listing.splitlines():
        ports = re.findall(r"[\]\d]:(\d+)\s", line)
        for pid in (first, second):
            if f"pid={pid}," in line and len(ports) >= 2:
                owned[pid].add((int(ports[0]), int(ports[1])))
    # One end may not be accepted yet, so either end's word is enough, when the other's port is the peer's.
    both = {pair for pair in owned[first] if pair[::-1] in owned[second]}
    waiting = {pair for a, b in ((first, second), (second, first)) for pair in owned[a]
               if pair[1] in listening(b) and pair not in both}
    return {p for pair in both | waiting for p in (pair, pair[::-1])}


def listening(pid):
    listing = subprocess.run(["ss", "-tlnpH"], capture_output=True, text=True, check=True).stdout
    return {int(re.search(r":(\d+)\s", line).group(1)) for line in listing.splitlines() if f"pid={pid}," in line}


def reset(first, second):
    """Ends all connections between the two at once; both sides see an error. Returns how many."""
    pairs = connections(first, second)
    for source, target in pairs:
        subprocess.run(["ss", "-K", "-tn", "sport", "=", f":{source}", "dport", "=", f":{target}"],
                       capture_output=True, check=True)
    return len(pairs) // 2


class Cut:
    """Drops every packet between pairs of processes until heal(); no side is told.

    New connections are found and dropped too, within some tens of milliseconds.
    """

    def __init__(self, pairs):
        self.pairs = pairs
        self.dropped = set()
        self.table = f"{TABLE}_{id(self)}"
        self._nft(f"table inet {self.table} {{\n set pairs {{ type inet_service . inet_service; }}\n"
                  f" chain out {{\n  type filter hook output priority 0;\n  tcp sport . tcp dport @pairs drop\n }}\n}}\n")
        self._healed = threading.Event()
        self._more()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @staticmethod
    def _nft(rules):
        subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)

    def _more(self):
        found = set().union(*(connections(a, b) for a, b in self.pairs)) - self.dropped
        if found:
            elements = ", ".join(f"{a} . {b}" for a, b in found)
            self._nft(f"add element inet {self.table} pairs {{ {elements} }}\n")
            self.dropped |= found

    def _follow(self):
        while not self._healed.wait(0.03):
            self._more()

    def heal(self):
        self._healed.set()
        self._thread.join()
        self._nft(f"delete table inet {self.table}\n")
        return len(self.dropped) // 2

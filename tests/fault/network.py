"""Cuts the TCP connections between two processes of one network namespace."""

import os
import shutil
import subprocess
import threading

TABLE = "tandem_cut"
LISTEN = "0A"  # in /proc/net/tcp


def why_not():
    """Why connections cannot be cut here, or None."""
    if os.geteuid() != 0:
        return "cutting connections needs root"
    for tool in ("nft", "ss", "unshare"):
        if shutil.which(tool) is None:
            return f"cutting connections needs {tool} (Debian: nftables, iproute2, util-linux)"
    done = subprocess.run(["unshare", "--net", "nft", "add", "table", "inet", TABLE], capture_output=True, text=True)
    return f"nft does not work here: {done.stderr.strip()}" if done.returncode else None


def sockets_of(pid):
    """Inodes of the process's sockets."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            if link.startswith("socket:["):
                found.add(int(link[8:-1]))
    except OSError:  # the process or the descriptor is gone
        pass
    return found


def tcp_table():
    """(local port, remote port, state, inode) of every TCP socket of this network namespace."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path) as file:
            next(file)
            for line in file:
                words = line.split()
                yield int(words[1].rsplit(":", 1)[1], 16), int(words[2].rsplit(":", 1)[1], 16), words[3], int(words[9])


def connections(first, second):
    """Port pairs, both directions, of the connections that the two processes have, or begin, with each other."""
    owned, listens = {}, {}
    inodes = {pid: sockets_of(pid) for pid in (first, second)}
    for pid in inodes:
        owned[pid], listens[pid] = set(), set()
    for local, remote, state, inode in tcp_table():
        for pid in inodes:
            if inode in inodes[pid]:
                (listens[pid].add(local) if state == LISTEN else owned[pid].add((local, remote)))
    # A connection that is not accepted yet is the connecting end's alone.
    met = {pair for pair in owned[first] if pair[::-1] in owned[second]}
    for a, b in ((first, second), (second, first)):
        met |= {pair for pair in owned[a] if pair[1] in listens[b]}
    return {p for pair in met for p in (pair, pair[::-1])}


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

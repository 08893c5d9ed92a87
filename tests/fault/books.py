"""What a cluster holds: blocks and leases, descriptors, memory, files of shared memory."""

import dataclasses
import os

SHARED = "/dev/shm"


def shared_files():
    return {os.path.join(folder, name) for folder, _, names in os.walk(SHARED) for name in names}


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def descriptor_names(pid):
    out = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            out.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return sorted(out)


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def shared_bytes():
    room = os.statvfs(SHARED)
    return (room.f_blocks - room.f_bfree) * room.f_frsize


@dataclasses.dataclass
class Books:
    """A snapshot of a quiet cluster, by process id, so that a restarted process is not compared."""
    pids: dict
    fds: dict
    rss: dict
    files: set
    shm: int

    @classmethod
    def of(cls, fleet):
        pids = {name: fleet.pid(name) for name in fleet.names()}
        return cls(pids, {n: descriptors(p) for n, p in pids.items()}, {n: rss_kib(p) for n, p in pids.items()},
                   shared_files(), shared_bytes())

    def leaks_since(self, start, fd_slack=0):
        """What grew that must not have: [(what, before, now)]."""
        out = [(f"descriptors of {n}", start.fds[n], self.fds[n]) for n in self.pids
               if self.pids[n] == start.pids[n] and self.fds[n] > start.fds[n] + fd_slack]
        if self.files - start.files:
            out.append(("files in /dev/shm", len(start.files), sorted(self.files - start.files)))
        return out

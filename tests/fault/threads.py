"""Stops single threads of another process, as a hung device call would."""

import ctypes
import os
import threading

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # waitpid: threads too

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, tid):
    if _libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}, {tid}): {os.strerror(ctypes.get_errno())}")


def named(pid, *names):
    """Ids of the process's threads with one of these names (/proc/PID/task/TID/comm)."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm") as file:
            if file.read().strip() in names:
                found.append(int(tid))
    return found


class Frozen:
    """Threads that stand still until the context ends, while the rest of their process runs."""

    def __init__(self, tids):
        self._tids, self._error = tids, None
        self._frozen, self._thaw = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)  # ptrace belongs to one thread

    def _run(self):
        held = []
        try:
            for tid in self._tids:
                _ptrace(PTRACE_SEIZE, tid)
                held.append(tid)
                _ptrace(PTRACE_INTERRUPT, tid)
                os.waitpid(tid, WALL)
        except OSError as error:
            self._error = error
        self._frozen.set()
        self._thaw.wait()
        for tid in held:
            try:
                _ptrace(PTRACE_DETACH, tid)
            except OSError:  # its process was killed
                pass

    def __enter__(self):
        self._thread.start()
        self._frozen.wait()
        if self._error:
            self.__exit__()
            raise self._error
        return self

    def __exit__(self, *_):
        self._thaw.set()
        self._thread.join()

"""The faults that chaos injects: what, whom, when and for how long, all drawn from one seed."""

import dataclasses
import random
import signal
import threading
import time

import network

KINDS = ("kill", "stop", "cut", "drain", "restart")
PAIRS = (("router", "prefill"), ("router", "decode"), ("prefill", "decode"))


@dataclasses.dataclass
class Fault:
    number: int
    kind: str
    targets: tuple  # names of processes
    seconds: float  # how long it lasts; 0: a moment
    wait: float  # seconds after the fault before
    how: str = ""
    began: float = None
    ended: float = None
    note: str = ""

    def __str__(self):
        lasts = f" for {self.seconds:.2f} s" if self.seconds else ""
        return f"#{self.number} {self.kind}{f' ({self.how})' if self.how else ''} {' and '.join(self.targets)}{lasts}"


def plan(count, seed, kinds, prefill=2, decode=2, mean_wait=1.5):
    """The faults of a seed. The same arguments give the same plan."""
    draw = random.Random(seed)
    nodes = [f"prefill-{i}" for i in range(prefill)] + [f"decode-{i}" for i in range(decode)]
    out = []
    for number in range(count):
        kind = draw.choice(kinds)
        fault = Fault(number, kind, (draw.choice(nodes),), 0.0, 0.3 + draw.expovariate(1 / mean_wait))
        if kind == "stop":
            fault.seconds = draw.uniform(5, 30) if draw.random() < 0.1 else draw.uniform(0.5, 5)
        elif kind == "cut":
            first, second = draw.choice(PAIRS)
            pick = lambda role: role if role == "router" else draw.choice([n for n in nodes if n.startswith(role)])
            fault.targets = (pick(first), pick(second))
            fault.how = draw.choice(("reset", "silent", "silent"))
            if fault.how == "silent":
                fault.seconds = draw.choice((draw.uniform(0.2, 1.8), draw.uniform(2.2, 5)))
        out.append(fault)
    return out


class Injector:
    """Carries a plan out against a fleet, in a thread of its own. A process has one fault at a time."""

    def __init__(self, fleet, faults, say=lambda text: None):
        self.fleet, self.faults, self.say = fleet, faults, say
        self.busy = set()
        self.error = None
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._running = []
        self._started = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        self._started = True
        return self

    def done(self):
        return self._started and not self._thread.is_alive()

    def join(self):
        self._thread.join()
        for thread in self._running:
            thread.join()
        if self.error:
            raise self.error

    def _run(self):
        for fault in self.faults:
            if self.stopped.wait(fault.wait):
                return
            self._take(fault)
            thread = threading.Thread(target=self._carry_out, args=(fault,), daemon=True)
            self._running.append(thread)
            thread.start()
            if self.error:
                return
        for thread in self._running:
            thread.join()

    def _stand_ins(self, fault):
        """Nodes that must be well before it: an operator takes away only what another can replace."""
        if fault.kind not in ("drain", "restart"):
            return set()
        role = fault.targets[0].split("-")[0]
        return {name for name in self.fleet.nodes() if name.startswith(role)}

    def _take(self, fault):
        """Waits until no target has another fault and all are alive."""
        while not self.stopped.is_set():
            with self._lock:
                concerned = set(fault.targets) | self._stand_ins(fault)
                if not self.busy & concerned and all(self.fleet.ready(t) for t in concerned):
                    self.busy |= set(fault.targets)
                    return
            time.sleep(0.01)

    def _carry_out(self, fault):
        try:
            fault.began = time.monotonic()
            self.say(str(fault))
            getattr(self, "_" + fault.kind)(fault)
        except Exception as error:  # told by join(); a plan that was not carried out proves nothing
            self.error = error
        finally:
            fault.ended = time.monotonic()
            with self._lock:
                self.busy -= set(fault.targets)

    def _kill(self, fault):
        self.fleet.kill(fault.targets[0])

    def _stop(self, fault):
        pid = self.fleet.pid(fault.targets[0])
        self.fleet.send(pid, signal.SIGSTOP)
        self.stopped.wait(fault.seconds)
        self.fleet.send(pid, signal.SIGCONT)

    def _cut(self, fault):
        pids = tuple(self.fleet.pid(t) for t in fault.targets)
        if fault.how == "reset":
            fault.note = f"{network.reset(*pids)} connections"
            return
        cut = network.Cut([pids])
        self.stopped.wait(fault.seconds)
        fault.note = f"{cut.heal()} connections"

    def _drain(self, fault):
        self.fleet.drain(fault.targets[0])

    def _restart(self, fault):
        self.fleet.restart(fault.targets[0])

"""A network of the test's own: one namespace a process, joined by a bridge, any pair of which can be cut."""

import os
import shutil
import subprocess

TABLE = "tandem_lab"


def why_not():
    """Why there can be no lab here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "nft", "unshare"):
        if shutil.which(tool) is None:
            return f"network namespaces need {tool} (Debian: iproute2, nftables, util-linux)"
    probe = subprocess.run(["unshare", "--net", "sh", "-c",
                            "ip link add br0 type bridge && ip link add ve0 type veth peer name ve1 && "
                            f"nft add table inet {TABLE}"], capture_output=True, text=True)
    return f"this kernel gives no bridge, veth or nftables: {probe.stderr.strip()}" if probe.returncode else None


def run(*words, feed=None):
    subprocess.run(words, input=feed, text=True, check=True)


class Lab:
    """Namespaces named after `places`; a context manager that removes them. Call it in a network namespace that
    is the test's own (fleet.in_own_namespaces): the bridge lies there, and so the test reaches every place."""

    INTERFACE = "kv0"

    def __init__(self, places):
        self.places = {place: i + 1 for i, place in enumerate(places)}
        self._made = []

    def name(self, place):
        return f"tandem-{os.getpid()}-{place}"

    def address(self, place):
        return f"10.77.0.{self.places[place]}"

    def prefix(self, place):
        """What a command begins with to run there."""
        return ("ip", "netns", "exec", self.name(place))

    def __enter__(self):
        try:
            run("ip", "link", "add", "lab", "type", "bridge")
            run("ip", "addr", "add", "10.77.0.254/24", "dev", "lab")
            run("ip", "link", "set", "lab", "up")
            for place in self.places:
                space = self.name(place)
                run("ip", "netns", "add", space)
                self._made.append(space)
                end = f"lab{self.places[place]}"
                run("ip", "link", "add", end, "type", "veth", "peer", "name", self.INTERFACE, "netns", space)
                run("ip", "link", "set", end, "master", "lab", "up")
                run("ip", "-n", space, "link", "set", "lo", "up")
                run("ip", "-n", space, "addr", "add", self.address(place) + "/24", "dev", self.INTERFACE)
                run("ip", "-n", space, "link", "set", self.INTERFACE, "up")
                run(*self.prefix(place), "nft", "-f", "-", feed=
                    f"table inet {TABLE} {{\n set far {{ type ipv4_addr; }}\n"
                    " chain out {\n type filter hook output priority 0;\n ip daddr @far drop\n }\n"
                    " chain in {\n type filter hook input priority 0;\n ip saddr @far drop\n }\n}\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in self._made:
            run("ip", "netns", "del", space)

    def _change(self, verb, pairs):
        for first, second in pairs:
            run(*self.prefix(first), "nft", verb, "element", "inet", TABLE, "far", f"{{ {self.address(second)} }}")

    def cut(self, *pairs):
        """From now on no packet passes between the two of each pair; nobody is told."""
        self._change("add", pairs)

    def heal(self, *pairs):
        self._change("delete", pairs)

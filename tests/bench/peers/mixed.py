"""The mixed load over HTTP: whole Tandem and each peer's server, one at a time."""
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from peers import llama_cpp
from peers.tools import ROOT, default_model

CLIENT = pathlib.Path(__file__).resolve().parent / "mixed_client.py"
START_LIMIT = 300  # s


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def healthy(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextlib.contextmanager
def served(command, url_of, stop_with=subprocess.Popen.terminate):
    """Runs a server; gives its URL once `url_of(log)` knows it and it answers."""
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT)
        try:
            limit = time.monotonic() + START_LIMIT
            while True:
                with open(log.name) as text:
                    written = text.read()
                url = url_of(written)
                if url and healthy(url + "/v1/models"):
                    break
                if process.poll() is not None or time.monotonic() > limit:
                    sys.exit(f"versus: {command[0]} does not serve:\n{written[-3000:]}")
                time.sleep(0.2)
            yield url
        finally:
            stop_with(process)
            process.wait()


def model_id(url):
    with urllib.request.urlopen(url + "/v1/models") as answer:
        return json.load(answer)["data"][0]["id"]


def servers(options):
    """Name, flags and a context manager that serves."""
    model = options.model or default_model()

    def tandem_url(log):
        found = re.search(r"serving .* at (http[^ ]*)/v1", log)
        return found and found.group(1)

    flags = ["serve", "--model", model, "--port", "0", "--numerics", options.numerics]
    state = tempfile.mkdtemp(prefix="tandem-versus-")
    yield "tandem", " ".join(flags[3:]), served(
        [ROOT / options.build / "bin" / "tandem", *flags, "--state-folder", state], tandem_url)
    best = llama_cpp.quantized(llama_cpp.peer(options.jobs), model)
    binaries = llama_cpp.build("llama-server", options.jobs)
    for name, path in (("llama.cpp", model), ("llama.cpp Q4_0", best)):
        port = free_port()
        flags = ["-t", options.threads, "-fa", "on", "-b", 2048, "-ub", llama_cpp.MICRO_BATCH, "-np", 9, "-c", 9 * 2304,
                 "--no-cache-prompt", "-cram", 0, "--no-webui"]
        yield name, " ".join(map(str, flags)), served(
            [binaries / "llama-server", "-m", path, "--host", "127.0.0.1", "--port", port, *flags],
            lambda log, port=port: f"http://127.0.0.1:{port}")


def measure(options, runner, say):
    """Records, a round each."""
    rounds = options.rounds
    for name, flags, serving in servers(options):
        with serving as url:
            model = model_id(url)
            client = [sys.executable, CLIENT, url, model, 1 if options.quick else 2]
            subprocess.run([str(part) for part in [*client, 1000]], check=True, stdout=subprocess.DEVNULL)  # warms up
            for number in range(rounds):
                say(f"mixed, round {number + 1} of {rounds}: {name}")
                yield {"name": name, "flags": flags, "round": number,
                       **json.loads(runner.output([*client, number]))}
                time.sleep(1)  # cancelled streams leave

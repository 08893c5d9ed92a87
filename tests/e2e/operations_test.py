"""What an operator does with a running cluster: look at it, drain it, bound it."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from tandem_cluster import BUILD, PATIENCE, Cluster, generated_model, wait_until


class OperatorCase(unittest.TestCase):
    FLAGS = ("--prefill", "2", "--decode", "2", "--kv-transport", "ucx-tcp")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.cluster = cls.enterClassContext(Cluster(generated_model(cls.folder.name), *cls.FLAGS))

    def admin(self):
        folder = next(os.scandir(self.cluster.state.name)).path
        with open(os.path.join(folder, "admin.port")) as file:
            return file.read().strip()

    def tandem(self, *words):
        command = [os.path.join(BUILD, "bin", "tandem"), *words, "--admin", self.admin()]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    def nodes(self):
        return {node["name"]: node for node in json.loads(self.tandem("get", "nodes", "--json").stdout)["nodes"]}


class Operations(OperatorCase):
    def test_get_nodes_prints_the_cluster(self):
        table = self.tandem("get", "nodes").stdout.splitlines()
        self.assertEqual(table[0].split()[:3], ["NAME", "ROLE", "STATE"])
        self.assertEqual({line.split()[0] for line in table[1:]},
                         {"prefill-0", "prefill-1", "decode-0", "decode-1"})

    def test_the_public_port_has_no_admin_paths(self):
        for path in ("/nodes", "/nodes/decode-0/drain"):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                self.cluster.get(path)
            self.assertEqual(caught.exception.code, 404)

    def test_drain_names_the_nodes_there_are(self):
        done = self.tandem("drain", "decode-7")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no node 'decode-7'; there are: prefill-0", done.stderr)

    def test_drained_nodes_cost_no_stream(self):
        """One of each role drains while streams run; all of them end well, with the tokens of an undisturbed run."""
        body = {"model": self.cluster.model, "prompt": "Rivers", "max_tokens": 200, "seed": 3, "temperature": 1,
                "ignore_eos": True}
        expected = self.cluster.post("/v1/completions", body)[1]["choices"][0]["text"]
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.cluster.post("/v1/completions", body)))
                   for _ in range(8)]
        before = self.nodes()
        for thread in threads:
            thread.start()
        for name in ("decode-0", "prefill-1"):
            done = self.tandem("drain", name, "--budget", "20s", "--wait")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("drained and gone", done.stderr)
            now = self.nodes()[name]
            self.assertTrue(now["state"] == "drained" or now["incarnation"] != before[name]["incarnation"], now)
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _ in answers], [200] * 8)
        self.assertEqual({answer["choices"][0]["text"] for _, answer in answers}, {expected})
        wait_until(lambda: json.loads(self.cluster.get("/health"))["status"] == "ok", "healthy again")


class Bounds(OperatorCase):
    """A second router before the same nodes, with narrow bounds."""

    FLAGS = ("--kv-transport", "ucx-tcp")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        nodes = json.loads(subprocess.run(
            [os.path.join(BUILD, "bin", "tandem"), "get", "nodes", "--json", "--admin", cls.admin(cls)],
            capture_output=True, text=True, timeout=PATIENCE, check=True).stdout)["nodes"]
        port_file = os.path.join(cls.folder.name, "router.port")
        cls.log = open(os.path.join(cls.folder.name, "router.log"), "w+")
        cls.addClassCleanup(cls.log.close)
        cls.router = subprocess.Popen(
            [os.path.join(BUILD, "bin", "tandem-router"), "--model", os.path.join(cls.folder.name, "tiny.gguf"),
             "--port", "0", "--port-file", port_file, "--max-requests", "2", "--max-connections-per-address", "4",
             "--cors-origin", "https://app.example", "--api-key", "key",
             *(word for node in nodes for word in ("--" + node["role"], node["address"]))],
            stderr=cls.log)
        cls.addClassCleanup(cls.router.wait)
        cls.addClassCleanup(cls.router.terminate)
        wait_until(lambda: os.path.exists(port_file), "the second router listens")
        with open(port_file) as file:
            cls.url = "http://" + file.read().strip()
        wait_until(lambda: cls.call("GET", "/health")[0] == 200, "the second router is ready")

    @classmethod
    def call(cls, method, path, body=None, **headers):
        """(status, headers, body) of a request on a connection of its own."""
        headers = {"Authorization": "Bearer key", "Content-Type": "application/json", "Connection": "close",
                   **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(cls.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def completion(self, **fields):
        return {"prompt": "Rivers", "max_tokens": 400, "ignore_eos": True, "temperature": 1, **fields}

    def test_a_browser_may_ask_without_a_key(self):
        ask = {"Origin": "https://app.example", "Access_Control_Request_Method": "POST", "Authorization": ""}
        status, headers, _ = self.call("OPTIONS", "/v1/chat/completions", **ask)
        self.assertEqual(status, 200)
        self.assertEqual(headers["access-control-allow-origin"], "https://app.example")
        # Errors are readable for the page, too.
        status, headers, _ = self.call("POST", "/v1/completions", {}, Origin="https://app.example", Authorization="")
        self.assertEqual((status, headers["access-control-allow-origin"]), (401, "https://app.example"))
        status, headers, _ = self.call("GET", "/v1/models", Origin="https://evil.example")
        self.assertEqual((status, headers["access-control-allow-origin"]), (200, None))

    def test_a_timeout_ends_in_one_504_or_one_error_event(self):
        status, _, body = self.call("POST", "/v1/completions", self.completion(), x_request_timeout_ms="1")
        self.assertEqual((status, json.loads(body)["error"]["code"]), (504, "deadline_exceeded"))
        status, _, _ = self.call("POST", "/v1/completions", self.completion(), x_request_timeout_ms="soon")
        self.assertEqual(status, 400)
        # Enough for the first tokens: the stream breaks off with one error event, then [DONE].
        for timeout in (20, 40, 80, 160, 320, 640):
            status, _, body = self.call("POST", "/v1/completions", self.completion(stream=True),
                                        x_request_timeout_ms=str(timeout))
            if status == 504:
                continue
            self.assertEqual(status, 200, body)
            events = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
            self.assertEqual(events[-1], "[DONE]")
            errors = [event for event in events if '"error"' in event]
            if errors:
                self.assertEqual(len(errors), 1)
                self.assertEqual(json.loads(events[-2])["error"]["code"], "deadline_exceeded")
            break

    def test_an_address_has_a_bound_of_connections(self):
        host, port = self.url.removeprefix("http://").split(":")
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(socket.create_connection((host, int(port)), PATIENCE))
            status, headers, body = wait_until(lambda: self.refusal(), "the fifth is refused")
            self.assertEqual(json.loads(body)["error"]["code"], "too_many_connections")
            self.assertEqual(headers["retry-after"], "1")
        wait_until(lambda: self.call("GET", "/health")[0] == 200, "there is room again")

    def refusal(self):
        try:
            answer = self.call("GET", "/health")
        except OSError:  # closed before the request was sent whole
            return None
        return answer if answer[0] == 429 else None

    def test_beyond_the_bound_429_says_when_to_come_again(self):
        stop = threading.Event()
        seen = []

        def load():
            while not stop.is_set():
                answer = self.call("POST", "/v1/completions", self.completion())
                if answer[0] == 429:
                    seen.append(answer)
                    stop.set()

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.assertTrue(stop.wait(PATIENCE), "no request was refused")
        for thread in threads:
            thread.join()
        _, headers, body = seen[0]
        self.assertTrue(1 <= int(headers["retry-after"]) <= 60)
        self.assertIsNone(headers["x-should-retry"])
        self.assertEqual(json.loads(body)["error"]["code"], "overloaded")


if __name__ == "__main__":
    unittest.main()

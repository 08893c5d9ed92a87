"""What an operator does with a running cluster: look at it, drain it, bound it."""

import json
import os
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


if __name__ == "__main__":
    unittest.main()

"""`tandem bench` against the built programs."""

import json
import os
import subprocess
import tempfile
import unittest

from tandem_cluster import BUILD, PATIENCE, Cluster, generated_model


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = generated_model(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def bench(self, url, *flags):
        """(exit status, the report)."""
        # Whether a machine that is busy otherwise lets the generator keep time is not asked here.
        done = subprocess.run(
            [os.path.join(BUILD, "bin", "tandem"), "bench", "--url", url, "--json", self.path("out.json"),
             "--late-limit", "1m", *flags], timeout=PATIENCE, stdout=subprocess.PIPE, text=True)
        if not os.path.exists(self.path("out.json")):
            return done.returncode, None
        with open(self.path("out.json")) as file:
            report = json.load(file)
        os.remove(self.path("out.json"))
        return done.returncode, report

    def test_answers_are_recorded_and_compared(self):
        expected = self.path("expected.jsonl")
        with Cluster(self.model) as cluster:
            status, report = self.bench(
                cluster.url, "--prompt-tokens", "5-40", "--output-tokens", "4-12", "--token-ids", "32-200",
                "--requests", "12", "--concurrency", "3", "--temperature", "0.9", "--record-expected", expected)
            self.assertEqual(status, 0, report)
            self.assertEqual(report["summary"]["succeeded"], 12)

            # Other neighbours, another pace, the same answers.
            status, report = self.bench(cluster.url, "--prompts", expected, "--rate", "40", "--requests", "24",
                                        "--timings", "--records", self.path("records.jsonl"))
            self.assertEqual(status, 0, report)
            self.assertEqual(report["summary"]["compared"], 24)
            self.assertEqual(report["summary"]["different"], 0)
            self.assertEqual(report["summary"]["timings"]["requests"], 24)
            with open(self.path("records.jsonl")) as file:
                records = [json.loads(line) for line in file]
            self.assertEqual({record["outcome"] for record in records}, {"ok"})
            self.assertEqual(sum(record["tokens"] for record in records), report["summary"]["output_tokens"])

            # One wrong expectation is one difference.
            with open(expected) as file:
                lines = [json.loads(line) for line in file]
            lines[3]["expected"] += "!"
            with open(expected, "w") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            status, report = self.bench(cluster.url, "--prompts", expected)
            self.assertEqual(status, 4)
            self.assertEqual(report["summary"]["different"], 1)
            self.assertIn("line 4", report["summary"]["first_difference"])
            cluster.wait_idle()

    def test_nobody_listening_is_no_run(self):
        status, report = self.bench("http://127.0.0.1:9", "--prompt-tokens", "5", "--output-tokens", "5")
        self.assertEqual((status, report), (1, None))

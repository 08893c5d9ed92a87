"""Starting, stopping and dying: what the user sees, and that nothing is left."""

import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import openai

from tandem_cluster import BUILD, ROOT, Cluster, generated_model, shared_memory_files, smollm2, wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Stopping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # Larger than the default, so that a prompt takes a while.
        cls.model = generated_model(cls.folder.name, "layers=8", "hidden=192", "context=8192")

    def assert_nothing_left(self, cluster, children):
        for name, pid in children.items():
            self.assertFalse(os.path.exists(f"/proc/{pid}"), name)
        self.assertEqual(shared_memory_files() - cluster.shared_before, set())

    def stream_in_thread(self, cluster, **fields):
        """Starts a streamed request; returns (thread, list that fills with its chunks or its error)."""
        seen = []

        def run():
            client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="none", max_retries=0)
            try:
                for chunk in client.completions.create(model=cluster.model, stream=True,
                                                       extra_body={"ignore_eos": True}, **fields):
                    seen.append(chunk)
            except openai.OpenAIError as error:
                seen.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, seen

    def test_sigterm_when_idle(self):
        with Cluster(self.model) as cluster:
            children = cluster.children()
            self.assertEqual(set(children), {"router", "prefill-0", "decode-0"})
            self.assertEqual(cluster.stop(signal.SIGTERM), 0, cluster.said)
            self.assert_nothing_left(cluster, children)

    def test_sigint_while_decoding(self):
        with Cluster(self.model) as cluster:
            children = cluster.children()
            thread, seen = self.stream_in_thread(cluster, prompt="Once", max_tokens=8000)
            wait_until(lambda: len(seen) > 3, "some tokens")
            self.assertEqual(cluster.stop(signal.SIGINT), 0, cluster.said)
            thread.join()
            self.assert_nothing_left(cluster, children)

    def test_sigterm_while_prefilling(self):
        with Cluster(self.model) as cluster:
            children = cluster.children()
            threads = [self.stream_in_thread(cluster, prompt=[3 + (i * j) % 200 for j in range(6000)], max_tokens=50)
                       for i in range(1, 4)]
            wait_until(lambda: cluster.metrics()["tandem_router_requests"] == 3, "all requests taken")
            self.assertEqual(cluster.stop(signal.SIGTERM), 0, cluster.said)
            for thread, _ in threads:
                thread.join()
            self.assert_nothing_left(cluster, children)

    def test_client_that_leaves_while_prefilling(self):
        with Cluster(self.model) as cluster:
            client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="none", max_retries=0, timeout=0.3)
            with self.assertRaises(openai.APITimeoutError):
                client.completions.create(model=cluster.model, prompt=[3 + j % 200 for j in range(8000)],
                                          max_tokens=100, extra_body={"ignore_eos": True})
            cluster.wait_idle()
            self.assertEqual(cluster.stop(), 0)

    def test_dead_child_comes_back_on_its_address_and_serves(self):
        with Cluster(self.model) as cluster:
            fields = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
            body = {"model": cluster.model, **fields}
            _, before = cluster.post("/v1/completions", body)
            for victim, how in (("decode-0", signal.SIGKILL), ("prefill-0", signal.SIGKILL),
                                ("router", signal.SIGKILL), ("decode-0", signal.SIGTERM)):
                with self.subTest(victim=victim, how=how):
                    old = cluster.children()[victim]
                    os.kill(old, how)
                    wait_until(lambda: cluster.children().get(victim, old) != old, f"a new {victim}")
                    wait_until(cluster.healthy, f"{victim} is used again")
                    status, after = cluster.post("/v1/completions", body)
                    self.assertEqual(status, 200, after)
                    self.assertEqual(after["choices"], before["choices"])
            children = cluster.children()
            self.assertEqual(cluster.stop(signal.SIGTERM), 0, cluster.said)
            self.assertIn("starting it again", "".join(cluster.said))
            self.assert_nothing_left(cluster, children)

    def test_dead_child_that_is_not_wanted_back_is_reported_and_all_stops(self):
        for victim in ("decode-0", "prefill-0", "router"):
            with self.subTest(victim), Cluster(self.model, "--restart", "never") as cluster:
                children = cluster.children()
                os.kill(children[victim], signal.SIGKILL)
                self.assertNotEqual(cluster.process.wait(60), 0)
                said = cluster.process.stdout.read()
                self.assertIn(victim, said)
                self.assertIn("signal 9", said)
                self.assert_nothing_left(cluster, children)

    def test_killed_supervisor_takes_its_children_along(self):
        cluster = Cluster(self.model)
        children = cluster.children()
        cluster.stop(signal.SIGKILL)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children.values()), "children gone")
        self.assertEqual(shared_memory_files() - cluster.shared_before, set())
        cluster.state.cleanup()


class Mistakes(unittest.TestCase):
    def tandem(self, *arguments, status):
        done = subprocess.run([os.path.join(BUILD, "bin", arguments[0]), *arguments[1:]], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, status, done)
        return done.stdout + done.stderr

    def test_port_that_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            model = generated_model(folder)
            with Cluster(model) as cluster:
                port = cluster.url.rsplit(":", 1)[1]
                said = self.tandem("tandem", "serve", "--model", model, "--port", port, "--kv-memory", "16M",
                                   "--state-folder", folder, status=1)
                self.assertIn(port, said)
                self.assertIn("in use", said.lower())

    def test_file_that_is_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "broken.gguf")
            with open(path, "wb") as file:
                file.write(b"GGUF" + b"\0" * 100)
            said = self.tandem("tandem", "serve", "--model", path, "--port", "0", "--kv-memory", "16M",
                               "--state-folder", folder, status=1)
            self.assertIn("broken.gguf", said)

    def test_misspelt_flags_name_the_nearest(self):
        for program in ("tandem-router", "tandem-prefill", "tandem-decode"):
            self.assertIn("--model", self.tandem(program, "--modle", "x", status=2))

    def test_help_fits_a_screen(self):
        for command in (("tandem-router",), ("tandem-prefill",), ("tandem-decode",), ("tandem", "serve"),
                        ("tandem", "chat")):
            self.assertLessEqual(len(self.tandem(*command, "--help", status=0).splitlines()), 40, command)


@unittest.skipUnless(smollm2(), "SmolLM2-135M-Instruct is not in the model cache (deploy/quickstart fetches it)")
class Quickstart(unittest.TestCase):
    def test_answers_once_and_leaves_nothing(self):
        before = shared_memory_files()
        with tempfile.TemporaryDirectory() as state:
            done = subprocess.run(
                [os.path.join(ROOT, "deploy", "quickstart"), "--once", "--port", free_port(), "--prompt",
                 "What is the capital of France?", "--", "--state-folder", state],
                text=True, capture_output=True, timeout=600)
        self.assertEqual(done.returncode, 0, done)
        for part in ("Paris", "time to first token", "inter-token latency", "KV moved", "exposed"):
            self.assertIn(part, done.stdout)
        self.assertEqual(shared_memory_files() - before, set())


class Chat(unittest.TestCase):
    def test_pipes_a_conversation(self):
        with tempfile.TemporaryDirectory() as folder, Cluster(generated_model(folder)) as cluster:
            done = subprocess.run(
                [os.path.join(BUILD, "bin", "tandem"), "chat", "--url", cluster.url, "--max-tokens", "5",
                 "--temperature", "0"],
                input="Hello\n/nothing\nOne \\\ntwo\n/quit\n", text=True, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("no command /nothing", done.stdout)
            self.assertIn(cluster.model, done.stderr)

    def test_interrupt_stops_the_answer_and_not_the_program(self):
        with tempfile.TemporaryDirectory() as folder, Cluster(generated_model(folder)) as cluster:
            chat = subprocess.Popen(
                [os.path.join(BUILD, "bin", "tandem"), "chat", "--url", cluster.url],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(2):
                chat.stdin.write("Hello\n")
                chat.stdin.flush()
                wait_until(lambda: cluster.metrics()["tandem_router_requests"] == 1 or chat.poll() is not None or
                           cluster.metrics()["tandem_router_submitted_total"] >= 1, "a request")
                chat.send_signal(signal.SIGINT)
                wait_until(lambda: cluster.metrics()["tandem_router_requests"] == 0, "its end")
                self.assertIsNone(chat.poll())
            chat.stdin.close()
            self.assertEqual(chat.wait(60), 0)
            chat.stdout.close()

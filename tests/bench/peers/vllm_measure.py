"""Tokens/s of vLLM's CPU engine, as JSON; run in the environment that has it: vllm_measure.py FOLDER STEPS eager|compiled"""
import json
import random
import sys
import time

from vllm import LLM, SamplingParams


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    engine = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", max_model_len=4096,
                 enable_prefix_caching=False, max_num_seqs=32, disable_log_stats=True, enforce_eager=sys.argv[3] == "eager")
    rng = random.Random(1)

    def seconds(sequences, prompt, tokens):
        prompts = [{"prompt_token_ids": [rng.randint(10, 400) for _ in range(prompt)]} for _ in range(sequences)]
        settings = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        engine.generate(prompts, settings, use_tqdm=False)
        return time.perf_counter() - start

    seconds(1, 512, 4)
    seconds(8, 128, 4)
    speeds = {f"prefill {n}": n / seconds(1, n, 1) for n in (512, 2048)}
    for n in (1, 8, 32):  # the steps behind the first token alone
        speeds[f"decode {n}"] = n * (steps - 1) / (seconds(n, 128, steps) - seconds(n, 128, 1))
    print(json.dumps(speeds))


if __name__ == "__main__":
    main()

"""What llama.cpp's CPU path does to the accuracy test's models: the bounds that the test holds Tandem to."""
import json
import subprocess
import tempfile

from peers import llama_cpp
from peers.tools import ROOT, say

KV_TYPES = ["f16", "bf16"]  # llama.cpp's default, and Tandem's type
COMMAND = "tests/bench/versus --accuracy tests/integration/engine/reference/accuracy.json"


def words(value):
    return f"{value['divergence']:.1e}, {value['perplexity']:.4f}"


def measure(options, peer):
    ours = ROOT / options.build / "tests" / "accuracy"
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        written = subprocess.run([ours, "write", folder], check=True, capture_output=True, text=True).stdout
        for line in written.splitlines():
            name, path, stem = line.split("\t")
            say(f"llama.cpp: {name}")
            for kv in KV_TYPES:
                subprocess.run([peer, "logits", path, f"{stem}.ids", f"{stem}.{kv}", kv], check=True)
        compared = subprocess.run([ours, "compare", folder], check=True, capture_output=True, text=True).stdout
    print("divergence from the f32 reference, perplexity\n| model | f32 | llama.cpp, KV f16 | llama.cpp, KV bf16 "
          "| Tandem's classes |\n|---|---|---|---|---|")
    for line in compared.splitlines():
        row = json.loads(line)
        exact = row["classes"]["scalar-f32"]["perplexity"]
        figures[row["model"]] = {"tokens": row["tokens"], "perplexity": exact,
                                 **{f"divergence_kv_{kv}": row[kv]["divergence"] for kv in KV_TYPES}}
        cells = [words(row[kv]) for kv in KV_TYPES]
        classes = "; ".join(f"{name} {words(value)}" for name, value in row["classes"].items() if name != "scalar-f32")
        print(f"| {row['model']} | {exact:.4f} | {' | '.join(cells)} | {classes} |")
    if options.accuracy != "-":
        about = {"made_by": COMMAND, "peer": f"{llama_cpp.PACKAGE} {llama_cpp.VERSION}, {' '.join(llama_cpp.CMAKE[:2])}",
                 "models": figures}
        with open(options.accuracy, "w") as out:
            json.dump(about, out, indent=1)
            out.write("\n")
    return 0

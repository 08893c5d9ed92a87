"""Tandem's own engine, by tests/bench/engine."""
import json
import platform

from peers.tools import ROOT, default_model


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "?")
    return {"cpu": model, "kernel": platform.release()}


class Engine:
    name = "tandem"

    def __init__(self, runner, options):
        self.runner = runner
        self.model = options.model or default_model()
        self.flags = f"--numerics {options.numerics}"
        self.command = [ROOT / options.build / "tests" / "engine_bench", "--model", self.model, "--threads",
                        options.threads, "--numerics", options.numerics, "--rounds", "1", "--profile", "--ceiling",
                        "--decode-steps", 32 if options.quick else 64, "--json"]

    def run(self):
        report = json.loads(self.runner.output(self.command))
        speeds = {row["case"]: row["median"] for row in report["cases"]}
        return {"tokens_per_s": speeds, "class": report["class"], "ceiling": report["ceiling"],
                "shares": shares(report), "load_s": report["load_s"], "packed_mb": report["packed_mb"]}


def shares(report):
    """Of the ceiling measured by the same process: matrix products of prompts, weight bytes of one stream."""
    result = {}
    for row in report["cases"]:
        if row["case"].startswith("prefill") and report["peak_gop_s"] > 0:
            result[row["case"]] = row["profile"]["linear_gop_s"] / report["peak_gop_s"]
        if row["case"] == "decode 1":
            result[row["case"]] = row["profile"]["weights_gb_s"] / report["ceiling"]["read_gb_s"]
    return result

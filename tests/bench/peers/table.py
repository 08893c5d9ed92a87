"""The table of a run, and whether it reached the stated ratios."""
import statistics

from peers import stated


def show(records):
    """Prints; the exit status."""
    below = []
    rounds = [record for record in records if record["kind"] == "round"]
    for record in records:
        if record["kind"] == "machine":
            print(f"{record['cpu']}, Linux {record['kernel']}")
            break
    if rounds:
        below += speeds(rounds)
        below += ceiling(rounds)
    mixed = [record for record in records if record["kind"] == "mixed"]
    if mixed:
        below += gaps(mixed)
    for line in below:
        print(f"below: {line}")
    return 1 if below else 0


def series(rounds, name, case):
    return {r["round"]: r["tokens_per_s"][case] for r in rounds if r["name"] == name and case in r["tokens_per_s"]}


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def speeds(rounds):
    below = []
    names = list(dict.fromkeys(r["name"] for r in rounds))
    for name in names:
        record = next(r for r in rounds if r["name"] == name)
        count = sum(r["name"] == name for r in rounds)
        print(f"{name}: {record['flags']}{', class ' + record['class'] if 'class' in record else ''}; {count} rounds")
    print("\ntokens/s, medians; ratio: Tandem's over the peer's, median of the rounds (smallest to largest)")
    print("| |" + "|".join(f" {name} |  ratio | stated " if name != "tandem" else " tandem " for name in names) + "|")
    print("|---" * (len(names) * 3 - 1) + "|")
    for case in stated.CASES:
        ours = series(rounds, "tandem", case)
        cells = []
        for name in names:
            theirs = series(rounds, name, case)
            if not theirs:
                cells += ["–"] if name == "tandem" else ["–", "–", "–"]
                continue
            cells.append(f"{statistics.median(theirs.values()):.0f}")
            if name == "tandem":
                continue
            ratios = [ours[i] / theirs[i] for i in theirs if i in ours]
            wanted = stated.RATIOS[name][case]
            cells += [spread(ratios), f"{wanted}"]
            if statistics.median(ratios) < wanted:
                below.append(f"{case} against {name}: {statistics.median(ratios):.2f}, stated {wanted}")
        print(f"| {case} | " + " | ".join(cells) + " |")
    missing = [name for name in stated.RATIOS if name not in names]
    if missing:
        print(f"not measured: {', '.join(missing)}")
    return below


def ceiling(rounds):
    below = []
    ours = [r for r in rounds if r["name"] == "tandem"]
    read = statistics.median(r["ceiling"]["read_gb_s"] for r in ours)
    megabytes = ours[0]["ceiling"]["read_bytes"] / 1e6
    peaks = {name: statistics.median(r["ceiling"]["peak_gop_s"][name] for r in ours)
             for name in ours[0]["ceiling"]["peak_gop_s"]}
    print(f"\nceiling: {read:.1f} GB/s read over {megabytes:.0f} MB; GOP/s from registers: "
          + ", ".join(f"{name} {rate:.0f}" for name, rate in peaks.items()))
    print("| share of the ceiling | reached | stated |\n|---|---|---|")
    for case, wanted in stated.SHARES.items():
        values = [r["shares"][case] for r in ours if case in r["shares"]]
        if not values:
            continue
        print(f"| {case} | {spread(values)} | {wanted} |")
        if statistics.median(values) < wanted:
            below.append(f"{case}, share of the ceiling: {statistics.median(values):.2f}, stated {wanted}")
    return below


def gaps(mixed):
    below = []
    print("\nmixed, over HTTP: 8 streams run, a 2048-token prompt arrives (ms, medians of the rounds)")
    print("| | gap before p50 / p99 | gap meanwhile p50 / p99 | of the gap before, p50 / p99 | TTFT | stated |")
    print("|---|---|---|---|---|---|")
    first_token = {}
    for name in dict.fromkeys(r["name"] for r in mixed):
        rows = [r for r in mixed if r["name"] == name]

        def middle(key, rows=rows):
            return statistics.median(r[key] for r in rows)

        p50, p99 = middle("gap_p50_ms") / middle("before_p50_ms"), middle("gap_p99_ms") / middle("before_p50_ms")
        first_token[name] = middle("ttft_ms")
        wanted = f"{stated.GAP_P50}× / {stated.GAP_P99}×" if name == "tandem" else ""
        print(f"| {name} | {middle('before_p50_ms'):.1f} / {middle('before_p99_ms'):.1f} | {middle('gap_p50_ms'):.1f} / "
              f"{middle('gap_p99_ms'):.1f} | {p50:.1f}× / {p99:.1f}× | {first_token[name]:.0f} | {wanted} |")
        if name == "tandem" and p50 > stated.GAP_P50:
            below.append(f"mixed, gap p50: {p50:.1f} times the undisturbed, stated {stated.GAP_P50}")
        if name == "tandem" and p99 > stated.GAP_P99:
            below.append(f"mixed, gap p99: {p99:.1f} times the undisturbed, stated {stated.GAP_P99}")
    peers = {name: value for name, value in first_token.items() if name != "tandem"}
    if peers and "tandem" in first_token and first_token["tandem"] > min(peers.values()):
        below.append(f"mixed, TTFT: {first_token['tandem']:.0f} ms, the best peer's {min(peers.values()):.0f} ms")
    return below

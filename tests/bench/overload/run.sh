#!/usr/bin/env bash
# Measures `tandem serve` up to and far past its capacity:
#   1. closed loops of 1 … 512 streams: throughput, latencies;
#   2. an open loop at ten times the best of these, between two moments of rest: throughput of what was
#      admitted against the peak, kinds of refusals, memory of every process once a second;
#   3. one reader who takes 100 bytes a second beside 16 normal streams, and the 16 without him.
#
#   tests/bench/overload/run.sh MODEL [OUT]        (OUT: a folder for the JSON files; a new one)
#
# Settings by environment: SECONDS_EACH (20), SECONDS_OVERLOAD (60), TIMES (10), PROMPT_TOKENS (16-64),
# OUTPUT_TOKENS (32-64), TOKEN_IDS (32-500), SERVE_FLAGS. `tandem bench` marks a run invalid when the
# machine did not let it keep time; the figures of such a run are shown and marked, not hidden.
set -eu

[ $# -ge 1 ] || { sed -n '2,14p' "$0" >&2; exit 2; }
model=$1
out=${2:-$(mktemp -d /tmp/tandem-overload.XXXXXX)}
mkdir -p "$out"
bin=$(dirname "$(readlink -f "$0")")/../../../build/release/bin
each=${SECONDS_EACH:-20} overload=${SECONDS_OVERLOAD:-60} times=${TIMES:-10}
lengths=(--prompt-tokens "${PROMPT_TOKENS:-16-64}" --output-tokens "${OUTPUT_TOKENS:-32-64}"
         --token-ids "${TOKEN_IDS:-32-500}" --temperature 0.8)

# shellcheck disable=SC2086
"$bin/tandem" serve --model "$model" --port 0 --state-folder "$out/state" ${SERVE_FLAGS:-} > "$out/serve.log" 2>&1 &
server=$!
memory= slow=
stop() { kill $memory $slow "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
trap stop EXIT
until grep -q 'Ctrl-C stops' "$out/serve.log"; do
  kill -0 "$server" 2>/dev/null || { cat "$out/serve.log" >&2; exit 1; }
  sleep 0.2
done
url=$(sed -n 's/.*serving .* at \(http[^ ]*\)\/v1.*/\1/p' "$out/serve.log")

# bench NAME FLAGS…: runs one load, writes OUT/NAME.json. Refusals (status 4) are part of what is measured.
bench() {
  local name=$1; shift
  "$bin/tandem" bench --url "$url" "${lengths[@]}" --json "$out/$name.json" "$@" > "$out/$name.txt" 2> "$out/$name.log" || {
    local status=$?
    [ $status = 3 ] || [ $status = 4 ] || { cat "$out/$name.log" >&2; exit 1; }
  }
}

# show NAME: one row of a run.
show() {
  python3 - "$out/$1.json" "$1" << 'PY'
import json, sys
report = json.load(open(sys.argv[1]))
s = report["summary"]
print(f"{sys.argv[2]:<14}{s['requests_per_s']:>10.1f}{s['output_tokens_per_s']:>10.0f}"
      f"{s['ttft_ms']['p50']:>10.1f}{s['ttft_ms']['p99']:>10.1f}{s['itl_ms']['p50']:>9.2f}{s['itl_ms']['p99']:>9.2f}"
      f"{s['requests']:>9}{s['succeeded']:>9}  {json.dumps({**s['errors'], **s['http_statuses']})}"
      f"{'' if report['valid'] else '  INVALID: ' + report['invalid_because'][0]}")
PY
}

watch_memory() {  # name, pid and kilobytes resident of every process of the cluster, once a second
  while :; do
    for pid in $(pgrep -P "$server"); do
      printf '%s %s-%s %s\n' "$(date +%s)" "$(cat "/proc/$pid/comm")" "$pid" "$(awk '/^VmRSS/ {print $2}' "/proc/$pid/status")"
    done
    sleep 1
  done >> "$out/memory.txt" 2> /dev/null
}

printf '%-14s%10s%10s%10s%10s%9s%9s%9s%9s  %s\n' load req/s tokens/s TTFTp50 TTFTp99 ITLp50 ITLp99 requests ok refusals
watch_memory &
memory=$!
for streams in 1 8 32 128 512; do
  bench "closed-$streams" --concurrency $streams --warmup 3s --duration "${each}s"
  show "closed-$streams"
done
peak=$(python3 -c "
import json
print(max(json.load(open(f'$out/closed-{n}.json'))['summary']['requests_per_s'] for n in (1, 8, 32, 128, 512)))")
bench overload --rate "$(python3 -c "print($times * $peak)")" --warmup 5s --duration "${overload}s" --max-in-flight 8192 --timeout 60s
show overload
bench after --concurrency 32 --warmup 3s --duration "${each}s"
show after

bench beside-none --concurrency 16 --warmup 2s --duration "${each}s"
show beside-none
curl -sN --limit-rate 100 -H 'Content-Type: application/json' "$url/v1/completions" -o "$out/slow.txt" -d "$(python3 -c "
import json
print(json.dumps({'prompt': [64] * 16, 'max_tokens': 400, 'ignore_eos': True, 'stream': True}))")" &
slow=$!
bench beside-slow --concurrency 16 --warmup 2s --duration "${each}s"
show beside-slow
kill $memory $slow 2> /dev/null || true

python3 - "$out" "$peak" << 'PY'
import json, sys
out, peak = sys.argv[1], float(sys.argv[2])
load = lambda name: json.load(open(f"{out}/{name}.json"))
over = load("overload")
s = over["summary"]
print(f"\npeak {peak:.1f} requests/s; admitted in overload {s['requests_per_s']:.1f}: {100 * s['requests_per_s'] / peak:.0f} %")
begin, end = over["started_unix_s"], over["started_unix_s"] + over["elapsed_s"]
rows = {}
for line in open(f"{out}/memory.txt"):
    fields = line.split()
    if len(fields) == 3:
        rows.setdefault(fields[1], []).append((int(fields[0]), int(fields[2]) / 1024))
print(f"{'MiB resident':<22}{'before':>9}{'first 5 s':>11}{'half':>9}{'last':>9}{'after':>9}")
for name, samples in sorted(rows.items()):
    at = lambda t: min(samples, key=lambda sample: abs(sample[0] - t))[1]
    print(f"{name:<22}{at(begin - 1):>9.1f}{at(begin + 5):>11.1f}{at((begin + end) / 2):>9.1f}{at(end - 1):>9.1f}"
          f"{samples[-1][1]:>9.1f}")
PY
echo "files: $out"

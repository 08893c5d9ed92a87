#!/usr/bin/env bash
# Measures hand-offs over a TCP link throttled to a rate (default 1gbit): two network namespaces of
# its own, joined by a veth pair with tc on both ends, removed at the end. Needs root.
#
#   throttled.sh [RATE] -- ARGUMENTS OF transfer_end_to_end
#   throttled.sh 1gbit -- --model model.gguf --rounds 5
set -eu

rate=1gbit
if [ "${1:-}" != -- ] && [ $# -gt 0 ]; then rate=$1; shift; fi
[ "${1:-}" = -- ] && shift
[ "$(id -u)" = 0 ] || { echo "throttled.sh: namespaces and tc need root" >&2; exit 2; }

bench=$(dirname "$(readlink -f "$0")")/../../../build/release/bin/transfer_end_to_end
p=tandem-bench-p d=tandem-bench-d
cleanup() {
  ip netns del $p 2>/dev/null || true
  ip netns del $d 2>/dev/null || true
}
cleanup
trap cleanup EXIT
ip netns add $p
ip netns add $d
ip -n $p link add kv0 type veth peer name kv0 netns $d
ip -n $p addr add 10.77.0.1/24 dev kv0
ip -n $d addr add 10.77.0.2/24 dev kv0
for ns in $p $d; do
  ip -n $ns link set lo up
  ip -n $ns link set kv0 up
  tc -n $ns qdisc add dev kv0 root tbf rate "$rate" burst 256kb latency 50ms
done
# UCX offers a device only once its carrier is up.
for ns in $p $d; do
  until ip -n $ns link show kv0 | grep -q 'state UP'; do sleep 0.05; done
done
# The router stands beside the prefill node.
ip netns exec $p "$bench" --transport ucx-tcp --kv-interface kv0 \
  --decode-prefix "ip netns exec $d" --decode-host 10.77.0.2 --prefill-host 10.77.0.1 "$@"

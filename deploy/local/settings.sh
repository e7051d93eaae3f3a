# The environment variables of these commands: what there is, and what each takes. What is wrong with one is told before a
# build of minutes. To be sourced, with `program` set to the name that a complaint begins with.

policies=(lynx energy off share oea xshare top_k_reduced)  # of the decode workers
placements=(round_robin least_loaded expert_affinity)      # of the router

tell() { echo "$program: $*" >&2; }
refuse() { tell "$@"; exit 2; }

# Every LYNX_* variable that anything here reads, behind who does.
who_reads_what() {
  cat <<'END'
deploy/local/run LYNX_MODEL LYNX_MODEL_NAME LYNX_POLICY LYNX_PLACEMENT LYNX_DECODE_WORKERS LYNX_DRIFT_EVERY LYNX_TRANSPORT
deploy/local/run LYNX_API_PORT LYNX_OUT
deploy/local/test LYNX_FUZZ_SECONDS
services LYNX_CLUSTER_SECRET LYNX_CUDA_PORTABLE
lynx-replay LYNX_API_KEY
tests LYNX_SOURCE_DIR LYNX_BINARY_DIR LYNX_TEST_BACKEND LYNX_TEST_KV_PATH LYNX_TEST_GPUS
tests/docker/build LYNX_IMAGE_CACHE
tests/browser/run LYNX_BROWSER_PORT
deploy/cuda/bundle LYNX_CUDA_ARCHITECTURES
deploy/cuda/check LYNX_BENCH_ARGUMENTS LYNX_E2E
deploy/docker/compose.yaml LYNX_VERSION LYNX_THREADS LYNX_KV_MEMORY_MB
deploy/docker/lynx-probe LYNX_API_KEYS_FILE LYNX_PROBE_TIMEOUT LYNX_PROBE_INSIDE
END
}

distance() {  # distance A B: letters to insert, remove or exchange to make one of the other
  local a=$1 b=$2 i j up before after
  local -a row
  for ((j = 0; j <= ${#b}; ++j)); do row[j]=$j; done
  for ((i = 1; i <= ${#a}; ++i)); do
    before=$((i - 1)) row[0]=$i
    for ((j = 1; j <= ${#b}; ++j)); do
      up=${row[j]} after=$before
      if [ "${a:i-1:1}" != "${b:j-1:1}" ]; then
        [ $after -le "$up" ] || after=$up
        [ $after -le "${row[j-1]}" ] || after=${row[j-1]}
        after=$((after + 1))
      fi
      before=$up row[j]=$after
    done
  done
  echo "${row[${#b}]}"
}

nearest() {  # nearest NAME NAMES..: one with all of its letters in a row comes before one that takes fewer changes
  local word=$1 best='' least=1000 candidate far
  shift
  for candidate in "$@"; do
    if [[ $candidate == *"${word#LYNX_}"* ]]; then far=0; else far=$(distance "$word" "$candidate"); fi
    [ "$far" -ge "$least" ] || best=$candidate least=$far
  done
  echo "$best"
}

# check_variables refuse|tell READER..: what is done about a LYNX_* variable that nothing reads; one that none of these
# readers does is told, and unset.
check_variables() {
  local name reader names unknown=$1
  shift
  local -A reader_of
  while read -r reader names; do
    for name in $names; do reader_of[$name]=$reader; done
  done < <(who_reads_what)
  for name in $(compgen -e LYNX_ | sort); do
    reader=${reader_of[$name]:-}
    if [ -z "$reader" ]; then
      # Kubernetes tells each pod about the services of its namespace, such as a lynx-router.
      [[ $name =~ _SERVICE_(HOST|PORT)|_PORT_[0-9]+_ || ${!name} == *://* ]] ||
        "$unknown" "$name: there is no such variable; the nearest is $(nearest "$name" "${!reader_of[@]}")"
    elif [[ " $* " != *" $reader "* ]]; then
      tell "$name has no effect here: $reader reads it"
      unset "$name"
    fi
  done
}

check_choice() {  # check_choice WHAT VALUE CHOICES..
  local what=$1 value=$2
  shift 2
  [[ $value =~ ^[a-z_]+$ && " $* " == *" $value "* ]] || refuse "$what: '$value' is not one of: $*"
}

# read_settings OUT [MORE]: the variables of deploy/local/run, or their defaults, checked. OUT is the default of LYNX_OUT;
# MORE ports are taken above those of one run.
read_settings() {
  check_variables refuse deploy/local/run services lynx-replay
  model=${LYNX_MODEL:-deploy/model}
  name=${LYNX_MODEL_NAME:-}
  [ -n "$name" ] || { [ "$model" -ef deploy/model ] && name=lynx-mini || name=$(basename "$(realpath -m "$model")"); }
  policy=${LYNX_POLICY:-lynx}
  placement=${LYNX_PLACEMENT:-least_loaded}
  drift_every=${LYNX_DRIFT_EVERY:-256}
  transport=${LYNX_TRANSPORT:-tcp}
  api_port=${LYNX_API_PORT:-8000}
  out=${LYNX_OUT:-$1}
  decode_workers=${LYNX_DECODE_WORKERS:-2}
  [[ $decode_workers =~ ^[1-9][0-9]?$ ]] || refuse "LYNX_DECODE_WORKERS: expected 1 to 99, got '$decode_workers'"
  local last=$((11 + decode_workers + ${2:-0}))
  [[ $api_port =~ ^[1-9][0-9]{0,4}$ ]] && [ $((api_port + last)) -le 65535 ] ||
    refuse "LYNX_API_PORT: expected 1 to $((65535 - last)), for it and $last ports above it, got '$api_port'"
  check_choice LYNX_POLICY "$policy" "${policies[@]}"
  check_choice LYNX_PLACEMENT "$placement" "${placements[@]}"
  check_choice LYNX_TRANSPORT "$transport" auto tcp shm rdma
  [[ $drift_every =~ ^[0-9]{1,9}$ ]] || refuse "LYNX_DRIFT_EVERY: expected a number of steps, 0 for none, got '$drift_every'"
  [ -e "$model/config.json" ] || refuse "LYNX_MODEL: no folder of a model: '$model/config.json' is not there"
}

#!/usr/bin/env bash
# Measures everything on a GPU in one call of less than ten minutes: training, decoding, time to quality.
#
#   benchmarks/gpu.sh RESULTS FOLDER_OF_MULTI30K
#   benchmarks/gpu.sh --short RESULTS       the same on a CPU: the bundled corpus, a tiny model, few updates, none compiled
#
# RESULTS, a new folder, gets table.md, rows.json, and the results and output of each part (PART.json, PART.log). Every
# part has its own time limit. A part that fails or exceeds its limit is reported in one line; the other parts run, and
# the exit status is 1.
set -uo pipefail

if [ "${1:-}" = --short ] && [ $# = 2 ]; then
    shift
    common=(--runs 1 --steps 1 --size tiny)
    training=("${common[@]}" --precisions float32 --systems limit,ours,torch)
    base=("${common[@]}" --systems ours-graphs)
    decoding=("${common[@]}" --precisions float32 --systems ours,ctranslate2)
    quality=(--runs 1 --short --systems ours,torch --targets 1)
    slower=10
elif [ $# = 2 ] && [ -d "$2" ]; then
    common=(--runs 1 --device cuda --data "$(realpath "$2")")
    training=("${common[@]}" --systems limit,ours,ours-graphs,torch,transformers)
    compiled=("${common[@]}" --precisions bf16 --systems ours-compiled,torch-compiled,transformers-compiled)
    base=("${common[@]}" --size base --systems ours,ours-graphs,torch)
    base_compiled=("${common[@]}" --size base --precisions bf16 --systems ours-compiled,torch-compiled)
    decoding=("${common[@]}" --systems ours,ctranslate2,transformers)
    quality=("${common[@]}" --systems ours --targets 38 41 --minutes 1.7)
    slower=1
else
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
mkdir "$1" && results=$(realpath "$1") || exit 2
cd "$(dirname "$0")/.." || exit 2
TMPDIR=$(mktemp -d) && export TMPDIR || exit 2
trap 'rm -rf "$TMPDIR"' EXIT
failed=0

part() {  # NAME SECONDS ARGUMENTS_OF_RUN.PY…
    local name=$1 limit=$(($2 * slower)) started=$SECONDS
    shift 2
    timeout -k 5 "$limit" python benchmarks/run.py "$@" --json "$results/$name.json" > "$results/$name.log" 2>&1
    local status=$?
    case $status in
        0) echo "$name: $((SECONDS - started)) s"; return ;;
        124 | 137) echo "$name: stopped after $limit s, with what it had measured" ;;
        *) grep -a '^failed: ' "$results/$name.log" || echo "failed: $name: status $status, $(tail -n 1 "$results/$name.log")" ;;
    esac
    failed=1
}

part training 80 training "${training[@]}"
part decoding 80 decoding "${decoding[@]}"
part quality 120 quality "${quality[@]}"
part base 70 training "${base[@]}"
if [ -n "${compiled:-}" ]; then
    part compiled 120 training "${compiled[@]}"
    part base-compiled 80 training "${base_compiled[@]}"
    python -c 'import transformers' 2> /dev/null && part decoding-compiled 40 decoding "${common[@]}" --systems transformers-compiled
fi
parts=(training base compiled base-compiled decoding decoding-compiled quality)
python benchmarks/summary.py "$results" "${parts[@]}" || failed=1
exit $failed

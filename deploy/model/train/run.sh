#!/bin/sh
# Encode, train, export and evaluate.  run.sh CORPUS WORK [options of train.py]
# A run that was stopped goes on from its last checkpoint.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
corpus=$1 work=$2
shift 2
mkdir -p "$work/model"
cp "$here"/../tokenizer.json "$here"/../tokenizer_config.json "$work/model"
[ -e "$work/streams/held_out.npy" ] ||
  python3 "$here/documents.py" --corpus "$corpus" --tokenizer "$work/model" --out "$work/streams"
python3 "$here/train.py" --streams "$work/streams" --checkpoint "$work/checkpoint.pt" "$@"
python3 "$here/export.py" --checkpoint "$work/checkpoint.pt" --out "$work/model"
python3 "$here/evaluate.py" --model "$work/model" --held-out "$work/streams/held_out.npy" --out "$work/model/eval.json"

"""Cuts the committed sample of router logits out of a recording.

usage: make_sample.py router_logits.npz router_logits_6x64x64.f16

The recording (key `lg`, float16 [layers, sequences, positions, experts]) holds the router logits, before the softmax, of
a trained model with 64 experts, top-8. The sample is position 0 of the first 64 sequences of every layer, as raw
little-endian float16 [6, 64, 64]: a decode batch of 64 different documents for each layer.
"""
import sys

import numpy as np

recording, sample = sys.argv[1:]
logits = np.load(recording)["lg"]
assert logits.shape[0] == 6 and logits.shape[3] == 64, logits.shape
logits[:, :64, 0].astype("<f2").tofile(sample)

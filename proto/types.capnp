@0xaab34ea8f1c05a1e;
# What several messages share. Times are durations in milliseconds, never wall-clock: two hosts need not agree on the time.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lynx::proto");

enum Role {
  prefill @0;
  decode @1;
}

enum ErrorCode {  # common/core/result.h, same order
  invalidArgument @0;
  notFound @1;
  busy @2;
  deadlineExceeded @3;
  cancelled @4;
  unavailable @5;
  incompatible @6;
  permission @7;
  corrupt @8;
  internal @9;
}

struct Fault {
  code @0 :ErrorCode;
  message @1 :Text;
}

struct Fingerprint {  # two workers may serve one request only if both are equal
  model @0 :UInt64;     # config, weights and tokenizer
  kvLayout @1 :UInt64;  # block tokens, layers, heads, dtype
}

struct LogitBias {
  token @0 :UInt32;
  bias @1 :Float32;
}

struct SamplingParams {
  temperature @0 :Float32 = 1;  # 0 = greedy
  topK @1 :UInt32 = 0;          # 0 = off
  topP @2 :Float32 = 1;
  minP @3 :Float32 = 0;
  repetitionPenalty @4 :Float32 = 1;
  presencePenalty @5 :Float32 = 0;
  frequencyPenalty @6 :Float32 = 0;
  seed @7 :UInt64;              # the draw for position p depends on (seed, p) alone
  logitBias @8 :List(LogitBias);
  minTokens @9 :UInt32 = 0;
  maxTokens @10 :UInt32;        # of the whole request, tokens generated before a resume included
  ignoreEos @11 :Bool = false;
  topLogprobs @12 :UInt8 = 0;
  logprobs @13 :Bool = false;
  exact @14 :Bool = false;      # lynx.exact: rows keep their full top-k
  receipt @15 :Bool = false;    # lynx.receipt: each decode step's token comes with a StepReceipt
}

struct TokenLogprob {
  token @0 :UInt32;
  logprob @1 :Float32;
}

enum FinishReason {
  none @0;      # goes on
  stop @1;      # end-of-sequence token
  length @2;    # maxTokens or the context's end
}

struct SampledToken {
  token @0 :UInt32;
  index @1 :UInt32;  # 0-based place in the generated text of the request
  finish @2 :FinishReason;
  logprob @3 :Float32;
  topLogprobs @4 :List(TokenLogprob);
}

struct StepReceipt {  # what one decode step did to one sequence
  assignments @0 :UInt32;   # layers x k
  remapped @1 :UInt32;      # of them: on an expert outside the row's exact top-k
  routerMass @2 :Float32;   # probability kept of that top-k, as a share of it: mean of the layers
  batch @3 :UInt32;         # sequences of the step, this one among them
}

struct Lease {  # the only right to write into a decode worker's blocks
  id @0 :UInt64;
  generation @1 :UInt32;
  key @2 :UInt64;           # random: whoever does not hold the lease cannot guess it
  deadlineMs @3 :UInt32;
  blocks @4 :List(UInt32);  # physical blocks of the prompt, in order of position
}

@0x8460787e94617943;
# The control plane: one Frame after another, both ways, over one connection that the worker opens to the router.
# Order on a connection: Hello both ways, Proof both ways, Register, Welcome; then anything.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lynx::proto");
using Types = import "types.capnp";

const protocolVersion :UInt32 = 1;

struct Frame {
  union {
    hello @0 :Hello;
    proof @1 :Proof;
    refused @2 :Types.Fault;       # then the connection closes
    register @3 :Register;         # worker -> router
    welcome @4 :Void;              # router -> worker
    heartbeat @5 :Heartbeat;       # worker -> router
    ping @6 :Void;                 # router -> worker, so that a worker notices a dead router

    reserve @7 :Reserve;           # router -> decode
    reserved @8 :Reserved;         # decode -> router
    busy @9 :Busy;                 # either worker -> router: this request was not taken
    prefill @10 :Prefill;          # router -> prefill
    firstToken @11 :FirstToken;    # prefill -> router
    handedOver @12 :HandedOver;    # prefill -> router: the last push is acknowledged
    tokens @13 :Tokens;            # decode -> router: one frame per step
    ended @14 :Ended;              # worker -> router: the request ended here with a fault
    cancel @15 :Cancel;            # router -> worker
    gone @16 :Gone;                # router -> prefill
  }
}

struct Hello {
  version @0 :UInt32;
  service @1 :Text;   # router, prefill, decode
  nonce @2 :Data;     # 16 random bytes
}

struct Proof {
  hmac @0 :Data;      # HMAC-SHA256(secret, "lynx" | own service | peer's nonce | own nonce); empty secret = loopback only
}

struct Register {
  worker @0 :Text;          # stable name, unique in the cluster
  incarnation @1 :UInt64;   # new at each start
  role @2 :Types.Role;
  fingerprint @3 :Types.Fingerprint;
  model @4 :Text;           # name served
  contextTokens @5 :UInt32;
  blockTokens @6 :UInt32;
  totalBlocks @7 :UInt32;
  maxBatch @8 :UInt32;
  kvAddress @9 :Data;       # UCX worker address (decode) or empty
  metricsAddress @10 :Text; # host:port, for people
}

struct Heartbeat {
  freeBlocks @0 :UInt32;
  running @1 :UInt32;
  waiting @2 :UInt32;
  draining @3 :Bool;
  stepSeconds @4 :Float32;  # recent mean; 0 = none yet
  transport @5 :Text;       # the UCX transport in use, empty before the first push
  routedExperts @6 :Float32;     # distinct experts per layer-step since the last heartbeat, mean, before remapping
  activatedExperts @7 :Float32;  # and after; both 0 = no step since then
}

struct Reserve {
  request @0 :UInt64;                 # unique for the router's lifetime; a resume uses a fresh id
  tokens @1 :List(UInt32);            # prompt, then tokens generated before a resume
  generated @2 :UInt32;               # how many of them are generated
  sampling @3 :Types.SamplingParams;
  deadlineMs @4 :UInt32;
  sloClass @5 :Text;
}

struct Reserved {
  request @0 :UInt64;
  lease @1 :Types.Lease;
}

struct Busy {
  request @0 :UInt64;
  retryAfterMs @1 :UInt32;
  reason @2 :Text;
}

struct Prefill {
  request @0 :UInt64;
  tokens @1 :List(UInt32);
  generated @2 :UInt32;
  sampling @3 :Types.SamplingParams;
  deadlineMs @4 :UInt32;
  sloClass @5 :Text;
  lease @6 :Types.Lease;
  decodeWorker @7 :Text;
  decodeIncarnation @8 :UInt64;
  kvAddress @9 :Data;
  countExperts @10 :Bool;  # HandedOver is to tell which experts the prompt uses
  cacheSalt @11 :UInt64;   # prompts share KV with those of the same salt alone; 0 = with whatever has none
}

struct FirstToken {
  request @0 :UInt64;
  token @1 :Types.SampledToken;
  queueSeconds @2 :Float32;
  computeSeconds @3 :Float32;
}

struct HandedOver {
  request @0 :UInt64;
  bytes @1 :UInt64;
  transferSeconds @2 :Float32;  # first push posted to last acknowledged
  exposedSeconds @3 :Float32;   # the part after the last layer was computed: what the transfer adds to the second token
  transport @4 :Text;
  expertShares @5 :Data;        # [layers, experts] share of the computed tokens that each gets, 255 = all; empty: not asked
}

struct Tokens {
  step @0 :UInt64;
  items @1 :List(Item);
  struct Item {
    request @0 :UInt64;
    token @1 :Types.SampledToken;
    receipt @2 :Types.StepReceipt;  # null unless the request asked for it
  }
}

struct Ended {
  request @0 :UInt64;
  fault @1 :Types.Fault;
  transfer @2 :Bool;  # the fault is that of a KV transfer between the two workers; unset by older workers
}

struct Gone {  # this life of a decode worker has ended, as far as the sender can see
  worker @0 :Text;
  incarnation @1 :UInt64;
}

struct Cancel {
  request @0 :UInt64;
}

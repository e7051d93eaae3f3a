@0xaff1346dc23c1d09;
# Headers of the UCX active messages that move KV blocks from a prefill to a decode worker.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lynx::proto");
using Types = import "types.capnp";

struct KvPush {  # prefill -> decode; the payload is the bytes of the blocks of one layer
  pushId @0 :UInt64;        # echoed in the acknowledgement
  lease @1 :UInt64;
  generation @2 :UInt32;
  key @3 :UInt64;
  incarnation @4 :UInt64;   # of the decode worker the sender means
  kvLayout @5 :UInt64;
  layer @6 :UInt32;
  firstBlock @7 :UInt32;    # physical, in the decode worker's pool
  blocks @8 :UInt32;
  checksum @9 :UInt64;      # 0 = not computed
  last @10 :Bool;           # no push of this lease comes after this one was *posted* (others may still be under way)
  firstToken @11 :Types.SampledToken;  # with last
  readBefore @12 :UInt64;   # ns of the sending host's monotonic clock: later the bytes are somebody else's; 0 = no limit
  host @13 :UInt64;         # whose clock that is: for anybody on another host it means nothing
}

struct KvAck {  # decode -> prefill
  pushId @0 :UInt64;
  ok @1 :Bool;
  fault @2 :Types.Fault;
}

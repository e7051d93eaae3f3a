// What the IO thread and the engine thread of a worker say to each other, by way of two bounded queues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/core/clock.h"
#include "common/core/result.h"
#include "common/transport/kv_transport.h"
#include "services/engine/model.h"
#include "services/engine/sequence.h"
#include "services/engine/step_cost.h"
#include "services/engine/step_receipt.h"

namespace lynx {

// IO -> engine.
struct AdmitSequence {
  Sequence sequence;
};
struct CancelSequence {
  SequenceId id = 0;
};
using EngineCommand = std::variant<AdmitSequence, CancelSequence>;

// Engine -> IO.
struct ModelReady {
  ModelConfig config;
  std::uint64_t fingerprint = 0;
  ModelTraits traits;
  double load_seconds = 0;
};
struct ModelFailed {  // it did not load, or its device is gone: the engine has ended
  std::string message;
};

// The part of one sequence's prompt that a prefill step computes.
struct ChunkPart {
  SequenceId sequence = 0;
  std::uint32_t from = 0;  // tokens [from, to) of the sequence
  std::uint32_t to = 0;
  bool last = false;  // to is the prompt's end
};
struct LayerDone {
  std::shared_ptr<const std::vector<ChunkPart>> parts;
  std::uint32_t layer = 0;
  Clock::time_point step_started;
  Clock::time_point at;
};

struct SequenceToken {
  SequenceId sequence = 0;
  SampledTokenData token;
  std::optional<StepReceipt> receipt{};          // of decode steps, where the sequence asks for it
  std::vector<std::uint8_t> expert_shares = {};  // with the first token of a sequence that was counted
};
// The engine has let go of the sequence: nothing reads or writes its blocks any more. Exactly one per
// admitted sequence.
struct SequenceEnded {
  SequenceId sequence = 0;
  Status why;  // ok: it finished; kCancelled: it was asked to; else a fault
};
struct StepDone {
  std::uint64_t step = 0;
  Phase phase = Phase::kDecode;
  Clock::time_point started;
  Clock::time_point finished;
  std::uint32_t sequences = 0;  // in the batch
  std::uint32_t rows = 0;       // tokens computed
  StepWork work;
  std::vector<SequenceToken> tokens;
  std::vector<SequenceEnded> ended;
};
using EngineEvent = std::variant<ModelReady, ModelFailed, LayerDone, StepDone>;

}  // namespace lynx

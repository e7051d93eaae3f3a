// The texts that the laboratory measures on: of equal length, each with a topic. By default the exact model
// writes them itself, sampled at temperature 1 after prompts of several topics: then any model folder can be
// measured, nothing is downloaded, and the change of the cross-entropy is an estimate of the KL divergence.
// Or the held-out stream of the training recipe (documents.py, held_out.npy).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/token.h"
#include "loadtest/replay/topics.h"
#include "services/engine/model.h"

namespace lynx {

class Tokenizer;

struct Document {
  std::uint32_t topic = 0;
  std::vector<TokenId> tokens;  // of the length asked for
};

// `count` documents, the topics in turn; prompts are taken in turn within a topic.
std::vector<Document> write_documents(Model& model, const Tokenizer& tokenizer, const Topics& topics,
                                      std::uint32_t count, std::uint32_t length, std::uint64_t seed);

// `count` windows of a flat uint16 array of documents that token 0 ends, no more than eight of one document,
// drawn by the seed. The topic of a window is the sixteenth of the stream that it comes from: the recipe
// writes the stream source by source. Throws std::runtime_error naming the file.
std::vector<Document> read_held_out(const std::string& path, std::uint32_t count, std::uint32_t length,
                                    std::uint32_t vocab, std::uint64_t seed);

}  // namespace lynx

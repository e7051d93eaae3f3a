#include "loadtest/quality/documents.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "common/text/tokenizer.h"
#include "loadtest/quality/lab_cache.h"
#include "services/engine/monolith.h"

namespace lynx {

std::vector<Document> write_documents(Model& model, const Tokenizer& tokenizer, const Topics& topics,
                                      std::uint32_t count, std::uint32_t length, std::uint64_t seed) {
  std::vector<Document> documents(count);
  std::vector<MonolithRequest> requests(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    documents[i].topic = static_cast<std::uint32_t>(i % topics.names.size());
    const auto& prompts = topics.prompts[documents[i].topic];
    requests[i].prompt = tokenizer.encode(prompts[(i / topics.names.size() + seed) % prompts.size()]);
    SamplingParams& s = requests[i].sampling;
    s.seed = seed * 1'000'003 + i;
    // No end before the length is reached: a document is cut, not finished.
    s.min_tokens = s.max_tokens = length;
    s.ignore_eos = true;
  }
  KvCache cache(lab_layout(model, count, length + 64));
  const auto outputs = run_monolith(model, cache, {{.max_batch = 64, .chunk_tokens = 512}, {}}, requests);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!outputs[i].status)
      throw std::runtime_error("writing a document: " + outputs[i].status.error().message);
    auto& tokens = documents[i].tokens = requests[i].prompt;
    for (const auto& token : outputs[i].tokens) tokens.push_back(token.token);
    tokens.resize(length);
  }
  return documents;
}

namespace {

std::vector<std::uint16_t> read_npy_u16(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto refuse = [&](const char* why) { return std::runtime_error(path + ": " + why); };
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0) throw refuse("not a NumPy array");
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  const std::size_t data = 10 + header;
  if (bytes[6] != 1 || data > bytes.size() || bytes.substr(10, header).find("'<u2'") == std::string::npos)
    throw refuse("expected a version 1 array of uint16");
  std::vector<std::uint16_t> values((bytes.size() - data) / 2);
  std::memcpy(values.data(), bytes.data() + data, values.size() * 2);
  return values;
}

}  // namespace

std::vector<Document> read_held_out(const std::string& path, std::uint32_t count, std::uint32_t length,
                                    std::uint32_t vocab, std::uint64_t seed) {
  constexpr std::uint16_t kCounted = 0x7FFF;  // the high bit says whether training learns the token
  constexpr std::size_t kTopics = 16, kWindows = 8;
  const auto stream = read_npy_u16(path);
  std::vector<Document> windows;
  for (std::size_t start = 0; start < stream.size();) {
    const auto end = static_cast<std::size_t>(
        std::find(stream.begin() + static_cast<std::ptrdiff_t>(start), stream.end(), 0) - stream.begin());
    for (std::size_t w = 0; w < kWindows && start + (w + 1) * length <= end; ++w) {
      Document d{.topic = static_cast<std::uint32_t>(start * kTopics / stream.size()), .tokens = {}};
      for (std::size_t i = 0; i < length; ++i) {
        d.tokens.push_back(stream[start + w * length + i] & kCounted);
        if (d.tokens.back() >= vocab)
          throw std::runtime_error(path + ": a token beyond the model's vocabulary");
      }
      windows.push_back(std::move(d));
    }
    start = end + 1;
  }
  std::shuffle(windows.begin(), windows.end(), std::mt19937_64(seed));
  if (windows.size() < count)
    throw std::runtime_error(path + ": " + std::to_string(windows.size()) + " windows of " +
                             std::to_string(length) + " tokens, " + std::to_string(count) + " are needed");
  windows.resize(count);
  return windows;
}

}  // namespace lynx

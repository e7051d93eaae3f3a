#include "common/text/bpe.h"

#include <functional>
#include <queue>
#include <utility>

namespace lynx {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFF;

std::uint64_t pair_key(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }

struct Candidate {
  std::uint32_t rank;
  std::uint32_t position;  // of the left symbol
  TokenId left, right;     // as they were when it was found: stale when they have changed
  TokenId merged;

  bool operator>(const Candidate& other) const {
    return std::pair(rank, position) > std::pair(other.rank, other.position);
  }
};

}  // namespace

struct Bpe::Symbol {  // a doubly linked list in an array
  TokenId token;
  std::uint32_t previous, next;
};

Bpe::Bpe(std::unordered_map<std::string, TokenId> vocabulary, const std::vector<Merge>& merges,
         bool ignore_merges)
    : vocabulary_(std::move(vocabulary)), ignore_merges_(ignore_merges) {
  targets_.reserve(merges.size());
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank)
    targets_.insert_or_assign(pair_key(merges[rank].left, merges[rank].right),
                              Target{rank, merges[rank].merged});
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary_.find(std::string(1, static_cast<char>(byte)));
    if (found != vocabulary_.end()) byte_tokens_[static_cast<std::size_t>(byte)] = found->second;
  }
}

const Bpe::Target* Bpe::target(TokenId left, TokenId right) const {
  const auto found = targets_.find(pair_key(left, right));
  return found == targets_.end() ? nullptr : &found->second;
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view piece) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const auto& token = byte_tokens_[static_cast<std::uint8_t>(byte)];
    if (!token) continue;
    const auto i = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({*token, i == 0 ? kNone : i - 1, i + 1});
  }
  if (!symbols.empty()) symbols.back().next = kNone;
  return symbols;
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (ignore_merges_) {
    const auto whole = vocabulary_.find(std::string(piece));
    if (whole != vocabulary_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(piece);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::uint32_t position) {
    if (position == kNone || symbols[position].next == kNone) return;
    const TokenId left = symbols[position].token, right = symbols[symbols[position].next].token;
    if (const Target* found = target(left, right))
      queue.push({found->rank, position, left, right, found->merged});
  };
  for (std::uint32_t i = 0; i < symbols.size(); ++i) offer(i);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.position];
    if (left.token != best.left || left.next == kNone || symbols[left.next].token != best.right) continue;
    Symbol& right = symbols[left.next];
    left.token = best.merged;
    left.next = right.next;
    right.token = kNone;  // no candidate matches it any more
    if (left.next != kNone) symbols[left.next].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (std::uint32_t i = symbols.empty() ? kNone : 0; i != kNone; i = symbols[i].next)
    out.push_back(symbols[i].token);
}

}  // namespace lynx

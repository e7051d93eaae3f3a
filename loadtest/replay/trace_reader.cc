#include "loadtest/replay/trace_reader.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "loadtest/replay/row_reader.h"

namespace lynx {
namespace {

struct Lines {
  std::string_view rest;
  std::size_t number = 0;  // of the line that next() gave last

  bool next(std::string_view& line) {
    if (rest.empty()) return false;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    return true;
  }
};

std::string format_of(std::string_view first_line) {
  if (first_line.starts_with('{'))
    return first_line.find("\"chat_id\"") != std::string_view::npos ? "qwen" : "mooncake";
  if (first_line.find("ContextTokens") != std::string_view::npos) return "azure";
  if (first_line.find("Request tokens") != std::string_view::npos) return "burstgpt";
  return "";
}

bool has_header(const std::string& format) { return format == "azure" || format == "burstgpt"; }

Result<std::unique_ptr<RowReader>> reader_for(const std::string& format, std::string_view header) {
  if (format == "azure") return make_azure_reader(header);
  if (format == "burstgpt") return make_burstgpt_reader(header);
  if (format == "mooncake") return make_mooncake_reader();
  if (format == "qwen") return make_qwen_reader();
  return Error{ErrorCode::kInvalidArgument,
               format.empty()
                   ? "the first line is of no known trace format"
                   : "format '" + format + "' is not one of auto, azure, burstgpt, mooncake, qwen"};
}

void read_rows(Trace& trace, const RowReader& reader, Lines& lines) {
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty()) continue;
    auto request = reader.read(line);
    if (request)
      trace.requests.push_back(std::move(*request));
    else
      trace.rejected.add(lines.number, request.error().message);
  }
}

// By time, from zero.
void order_by_time(Trace& trace) {
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.at < b.at; });
  const auto first = trace.requests.front().at;
  for (TraceRequest& request : trace.requests) request.at -= first;
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) return "";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace

void RejectedRows::add(std::size_t line, const std::string& reason) {
  ++count;
  ++by_reason[reason];
  if (first.size() < kShown) first.push_back({line, reason});
}

Result<Trace> read_trace_text(std::string_view text, const std::string& name, const std::string& format) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Lines lines{.rest = text};
  std::string_view first;
  Lines ahead = lines;
  ahead.next(first);

  Trace trace{.name = name, .format = format, .sha256 = {}, .requests = {}, .rejected = {}};
  if (format == "auto") trace.format = format_of(first);
  const auto reader = reader_for(trace.format, first);
  if (!reader) return Error{reader.error().code, name + ":1: " + reader.error().message};
  if (has_header(trace.format)) lines = ahead;
  trace.block_tokens = (*reader)->block_tokens();
  read_rows(trace, **reader, lines);
  if (trace.requests.empty()) {
    const auto& rejected = trace.rejected.first;
    return Error{ErrorCode::kCorrupt, name + ": no request in it" +
                                          (rejected.empty() ? ""
                                                            : "; line " + std::to_string(rejected[0].line) +
                                                                  ": " + rejected[0].reason)};
  }
  order_by_time(trace);
  return trace;
}

Result<Trace> read_trace_file(const std::string& path, const std::string& format) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kNotFound, path + ": " + std::strerror(errno)};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto trace = read_trace_text(text, path, format);
  if (trace) trace->sha256 = sha256_hex(text);
  return trace;
}

}  // namespace lynx

// The lines and expectations that tests/golden/make_tokenizer_golden.py wrote.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/support/paths.h"

namespace lynx::testing {

inline std::string golden_path(const std::string& file) {
  return source_path("tests/golden/tokenizer/" + file);
}

inline std::vector<std::string> split_rows(const std::string& text) {
  std::vector<std::string> rows;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    rows.push_back(text.substr(begin, end - begin));
  return rows;
}

inline std::string read_golden(const std::string& file) {
  std::ifstream in(golden_path(file), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> golden_lines() {
  std::vector<std::string> lines = split_rows(read_golden("lines.txt"));
  for (std::string& line : lines) {
    std::string plain;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\' && i + 1 < line.size())
        plain += line[++i] == 'n' ? '\n' : line[i];
      else
        plain += line[i];
    }
    line = plain;
  }
  return lines;
}

inline std::vector<std::uint64_t> golden_hashes(const std::string& name) {
  std::vector<std::uint64_t> hashes;
  for (const std::string& row : split_rows(read_golden(name + ".hashes")))
    hashes.push_back(std::stoull(row, nullptr, 16));
  return hashes;
}

inline std::vector<TokenId> parse_ids(const std::string& row) {
  std::istringstream in(row);
  return {std::istream_iterator<TokenId>(in), {}};
}

inline std::uint64_t hash_ids(const std::vector<TokenId>& ids) {  // FNV-1a over little-endian u32
  std::uint64_t value = 0xCBF29CE484222325;
  for (const TokenId id : ids)
    for (int shift = 0; shift < 32; shift += 8) value = (value ^ (id >> shift & 0xFF)) * 0x100000001B3;
  return value;
}

}  // namespace lynx::testing

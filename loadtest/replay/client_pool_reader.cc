#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "loadtest/replay/client_pool.h"
#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

namespace fs = std::filesystem;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string seconds_text(double seconds) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.9g s", seconds);
  return out.data();
}

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text;
  std::array<char, 1U << 16U> some{};
  while (in.read(some.data(), some.size()) || in.gcount() > 0)
    text.append(some.data(), static_cast<std::size_t>(in.gcount()));
  if (in.bad()) return std::nullopt;  // a folder, or the disk
  return text;
}

Result<ArrivalWindow> parse_window(std::string_view row) {
  const auto fields = split_csv(row);
  if (!fields) return fields.error();
  if (fields->size() != 6) return malformed("expected window_start,rate,cv,pattern,shape,scale");
  const auto start = number((*fields)[0]), rate = number((*fields)[1]), shape = number((*fields)[4]);
  if (!start || *start < 0) return malformed("window_start is no time");
  if (!rate || *rate < 0 || *rate > 1e6) return malformed("rate is no number from 0 to 1e6");
  ArrivalWindow out{.start_s = *start, .rate = *rate};
  const std::string& pattern = (*fields)[3];
  if (pattern.empty()) {
    if (*rate > 0) return malformed("a window with a rate has no pattern");
    return out;
  }
  if (pattern != "Gamma" && pattern != "Weibull")
    return malformed("pattern '" + pattern + "' is neither Gamma nor Weibull");
  if (!shape || *shape <= 0 || *shape > 1e6) return malformed("shape is no number above 0");
  out.shape = pattern == "Gamma" ? GapShape::kGamma : GapShape::kWeibull;
  out.k = *shape;
  return out;
}

// Windows lie side by side and are all of one width, over all clients: a row that breaks this would be drawn
// over its neighbour's time, or leave a hole in it. width: 0 until two rows have told it.
Status check_place(const PoolClient& client, const ArrivalWindow& window, double& width) {
  if (client.windows.empty()) return {};
  const double step = window.start_s - client.windows.back().start_s;
  if (!(step > 0)) return malformed("window_start does not come after that of the row before");
  if (width == 0) width = step;
  if (std::abs(step - width) <= 1e-6 * width) return {};
  return malformed("window_start is " + seconds_text(step) +
                   " after that of the row before, where windows are " + seconds_text(width) + " wide");
}

Status read_windows(const fs::path& path, PoolClient& client, double& width) {
  const auto text = read_file(path);
  if (!text) return {ErrorCode::kNotFound, path.string() + ": cannot be read"};
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    std::string_view row(text->data() + begin, end - begin);
    begin = end + 1;
    ++line;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const auto window = parse_window(row);
    const Status fits = window ? check_place(client, *window, width) : Status(window.error());
    if (!fits)
      return {ErrorCode::kCorrupt, path.string() + ":" + std::to_string(line) + ": " + fits.error().message};
    client.windows.push_back(*window);
  }
  return {};
}

Status read_lengths(const fs::path& path, PoolClient& client) {
  std::error_code unknown;
  if (fs::symlink_status(path, unknown).type() == fs::file_type::not_found) return {};  // not published
  const auto text = read_file(path);
  if (!text) return {ErrorCode::kNotFound, path.string() + ": cannot be read"};
  const auto wrong = [&](const std::string& what) {
    return Status(ErrorCode::kCorrupt, path.string() + ": " + what);
  };
  const auto parsed = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return wrong("no JSON object");
  for (const auto& [key, window] : parsed.items()) {
    const auto start = number(key);
    if (!start || !window.is_object()) return wrong("'" + key + "' is no window");
    PoolClient::Lengths lengths;
    for (const auto& [field, table] :
         {std::pair{"input_tokens", &lengths.input}, std::pair{"output_tokens", &lengths.output}}) {
      const auto at = window.find(field);
      if (at == window.end() || !at->is_string())
        return wrong(key + "." + field + " is missing or no string");
      auto read = parse_length_table(at->get<std::string>());
      if (!read) return wrong(key + "." + field + ": " + read.error().message);
      *table = std::move(*read);
    }
    client.lengths[*start] = std::move(lengths);
  }
  return {};
}

// "chunk-12-trace.csv" -> "chunk-12".
std::optional<std::string> client_of(const fs::path& path) {
  constexpr std::string_view kEnd = "-trace.csv";
  const std::string name = path.filename().string();
  if (!name.starts_with("chunk-") || !name.ends_with(kEnd)) return std::nullopt;
  return name.substr(0, name.size() - kEnd.size());
}

using ClientFiles = std::vector<std::pair<fs::path, std::string>>;  // each with its client's name

// In the order of their names, for the order of a folder is no order.
Result<ClientFiles> client_files(const fs::path& folder) {
  ClientFiles files;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    if (auto client = client_of(at->path())) files.emplace_back(at->path(), *std::move(client));
  if (problem) return Error{ErrorCode::kNotFound, folder.string() + ": " + problem.message()};
  if (files.empty())
    return Error{ErrorCode::kNotFound, folder.string() + ": no chunk-<client>-trace.csv in it"};
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<LengthTable> parse_length_table(const std::string& text) {
  std::string_view rest = text;
  const auto blanks = [&] {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\n')) rest.remove_prefix(1);
  };
  const auto take = [&](char c) {
    blanks();
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  };
  const auto take_number = [&]() -> std::optional<double> {
    blanks();
    const std::size_t size = std::min(rest.find_first_of(":,} "), rest.size());
    const auto value = number(rest.substr(0, size));
    rest.remove_prefix(size);
    return value;
  };
  std::vector<std::pair<std::uint32_t, double>> entries;
  if (!take('{')) return malformed("expected {tokens: probability, ...}");
  while (!take('}')) {
    if (!entries.empty() && !take(','))
      return malformed("expected a comma after the " + std::to_string(entries.size()) + "th entry");
    const auto tokens = take_number();
    if (!tokens || *tokens < 0 || *tokens > 1e9 || !take(':'))
      return malformed("expected tokens and a colon");
    const auto probability = take_number();
    if (!probability || *probability < 0) return malformed("a probability is no number of at least 0");
    entries.emplace_back(std::max(1U, static_cast<std::uint32_t>(*tokens)), *probability);
  }
  blanks();
  if (!rest.empty()) return malformed("text after the closing brace");
  std::ranges::sort(entries);
  LengthTable out;
  double sum = 0;
  for (const auto& [tokens, probability] : entries) {
    out.tokens.push_back(tokens);
    out.upto.push_back(sum += probability);
  }
  if (!entries.empty() && !(sum > 0)) return malformed("the probabilities sum to 0");
  for (double& upto : out.upto) upto /= sum;
  return out;
}

Result<ClientPool> read_client_pool(const std::string& folder) {
  ClientPool pool;
  const fs::path root(folder);
  pool.name = (root.has_filename() ? root : root.parent_path()).filename().string();
  const auto files = client_files(root);
  if (!files) return files.error();
  double width = 0;
  for (const auto& [file, name] : *files) {
    PoolClient client{.name = name, .windows = {}, .lengths = {}};
    if (const Status read = read_windows(file, client, width); !read) return read.error();
    if (const Status read = read_lengths(root / (client.name + "-dataset.json"), client); !read)
      return read.error();
    pool.clients.push_back(std::move(client));
  }
  if (width > 0) pool.window_s = width;
  for (const PoolClient& client : pool.clients)
    if (!client.windows.empty())
      pool.span_s = std::max(pool.span_s, client.windows.back().start_s + pool.window_s);
  return pool;
}

}  // namespace lynx

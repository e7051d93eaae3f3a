#include "common/config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "common/config/config_values.h"

namespace lynx {
namespace {

using config::Shape;

constexpr std::size_t kMaxConfigBytes = 1 << 20;

// Walks the document along the known fields: what no field asks for is an error, so the walk is never deeper
// than the longest path, whatever anchors and aliases the file holds.
class YamlReader {
 public:
  YamlReader(const std::string& file, const ConfigFields& fields) : file_(file), fields_(fields) {}

  void read_section(const YAML::Node& map, const std::string& prefix) const {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const std::string path = prefix + key_of(entry.first, prefix, seen);
      if (const auto* field = find(path)) {
        read_field(entry.second, line_of(entry), *field);
      } else if (is_section(path)) {
        if (entry.second.IsNull()) continue;
        if (!entry.second.IsMap()) fail(line_of(entry), path, "expected a section with fields of its own");
        read_section(entry.second, path + ".");
      } else {
        fail(entry.first.Mark().line, path, "unknown key" + config::suggestion(path, known_paths()));
      }
    }
  }

  [[noreturn]] void fail(int line, const std::string& path, const std::string& what) const {
    const std::string place = line < 0 ? file_ : file_ + ":" + std::to_string(line + 1);
    throw ConfigError(place + ": " + (path.empty() ? "" : path + ": ") + what);
  }

 private:
  std::string key_of(const YAML::Node& key, const std::string& prefix, std::set<std::string>& seen) const {
    if (!key.IsScalar()) fail(key.Mark().line, prefix, "a key must be a plain word");
    if (!seen.insert(key.Scalar()).second)
      fail(key.Mark().line, prefix + key.Scalar(), "the key stands here twice");
    return key.Scalar();
  }

  void read_field(const YAML::Node& value, int line, const ConfigFields::Field& field) const {
    switch (config::shape_of(field.target)) {
      case Shape::kScalar:
        return read_scalar(value, line, field);
      case Shape::kList:
        return read_list(value, line, field);
      case Shape::kMap:
        return read_map(value, line, field);
    }
  }

  void read_scalar(const YAML::Node& value, int line, const ConfigFields::Field& field) const {
    const bool quoted = value.IsScalar() && value.Tag() == "!";
    const bool fits = value.IsScalar() && (!quoted || config::may_be_quoted(field.target));
    if (!fits || !config::set_scalar(field.target, value.Scalar())) wrong_type(value, line, field);
  }

  void read_list(const YAML::Node& value, int line, const ConfigFields::Field& field) const {
    if (!value.IsSequence()) wrong_type(value, line, field);
    std::vector<std::string> items;
    for (const auto& item : value) {
      if (!item.IsScalar()) wrong_type(item, item.Mark().line, field);
      items.push_back(item.Scalar());
    }
    *std::get<std::vector<std::string>*>(field.target) = std::move(items);
  }

  void read_map(const YAML::Node& value, int line, const ConfigFields::Field& field) const {
    if (!value.IsMap()) wrong_type(value, line, field);
    std::set<std::string> seen;
    std::map<std::string, double> entries;
    for (const auto& entry : value) {
      const std::string key = key_of(entry.first, field.path + ".", seen);
      const auto number = entry.second.IsScalar() && entry.second.Tag() != "!"
                              ? config::parse_double(entry.second.Scalar())
                              : std::nullopt;
      if (!number) wrong_type(entry.second, line_of(entry), field, "." + key, "a number");
      entries[key] = *number;
    }
    *std::get<std::map<std::string, double>*>(field.target) = std::move(entries);
  }

  [[noreturn]] void wrong_type(const YAML::Node& value, int line, const ConfigFields::Field& field,
                               const std::string& below = "", const std::string& wanted = "") const {
    fail(line, field.path + below,
         "expected " + (wanted.empty() ? config::expectation(field.target) : wanted) + ", got " +
             describe(value));
  }

  static std::string describe(const YAML::Node& value) {
    switch (value.Type()) {
      case YAML::NodeType::Scalar:
        return (value.Tag() == "!" ? "the string '" : "'") + value.Scalar() + "'";
      case YAML::NodeType::Sequence:
        return "a list";
      case YAML::NodeType::Map:
        return "a map";
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return "nothing";
  }

  // An empty value has no place of its own: its key's line is meant.
  static int line_of(const YAML::const_iterator::value_type& entry) {
    return entry.second.IsNull() ? entry.first.Mark().line : entry.second.Mark().line;
  }

  const ConfigFields::Field* find(const std::string& path) const {
    const auto& all = fields_.fields();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& field) { return field.path == path; });
    return found == all.end() ? nullptr : &*found;
  }

  bool is_section(const std::string& path) const {
    const auto& all = fields_.fields();
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& field) { return field.path.starts_with(path + "."); });
  }

  std::vector<std::string> known_paths() const {
    std::set<std::string> paths;
    for (const auto& field : fields_.fields()) {
      paths.insert(field.path);
      for (auto dot = field.path.find('.'); dot != std::string::npos; dot = field.path.find('.', dot + 1))
        paths.insert(field.path.substr(0, dot));
    }
    return {paths.begin(), paths.end()};
  }

  const std::string& file_;
  const ConfigFields& fields_;
};

// Notes where the second document of a text begins, without building any.
class DocumentMarks final : public YAML::EventHandler {
 public:
  int last_line = 0;

  void OnDocumentStart(const YAML::Mark& mark) override { last_line = mark.line; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

// Not YAML::LoadAll: on some broken texts (",") the parser stands still, and that would collect documents for
// ever.
std::optional<int> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentMarks marks;
  if (!parser.HandleNextDocument(marks) || !parser.HandleNextDocument(marks)) return std::nullopt;
  return marks.last_line;
}

}  // namespace

void read_yaml_text(const std::string& text, const std::string& file_name, ConfigFields& fields) {
  const YamlReader reader(file_name, fields);
  if (text.size() > kMaxConfigBytes) reader.fail(-1, "", "larger than 1 MiB");
  try {
    if (const auto line = second_document(text)) reader.fail(*line, "", "expected one YAML document");
    const YAML::Node document = YAML::Load(text);
    if (document.IsNull()) return;
    if (!document.IsMap()) reader.fail(document.Mark().line, "", "expected keys and values");
    reader.read_section(document, "");
  } catch (const YAML::Exception& e) {
    reader.fail(e.mark.line, "", e.msg);
  }
}

void read_yaml_file(const std::string& path, ConfigFields& fields) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": " + std::strerror(errno));
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) throw ConfigError(path + ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  read_yaml_text(text, path, fields);
}

}  // namespace lynx

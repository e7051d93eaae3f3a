// Typed configuration from YAML with flag overrides. A config struct lists its fields once, in a function
//   void describe(ConfigFields& f) { f.section("http"); f.field("port", http.port, "port of the API"); ... }
// and that one list gives: reading YAML (unknown key or wrong type = error with file, line and path),
// command-line flags
// (--http.port 8000 overrides the file), --print-config, and --help. Start-up only; errors are thrown as
// ConfigError.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace lynx {

// what() reads "file.yaml:12: http.port: expected an integer from 0 to 65535, got 'abc'".
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigFields {
 public:
  using Target = std::variant<bool*, std::int64_t*, std::uint16_t*, std::uint32_t*, std::uint64_t*, double*,
                              std::string*, std::chrono::milliseconds*, std::vector<std::string>*,
                              std::map<std::string, double>*>;
  struct Field {
    std::string path;  // "http.port"
    Target target;
    std::string help;
  };

  void section(std::string name) { section_ = std::move(name); }  // "" = top level
  void field(const std::string& name, Target target, std::string help) {
    fields_.push_back({section_.empty() ? name : section_ + "." + name, target, std::move(help)});
  }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::string section_;
  std::vector<Field> fields_;
};

// Milliseconds are written 250ms, 2s, 5m or a plain number of milliseconds.
void read_yaml_text(const std::string& text, const std::string& file_name, ConfigFields& fields);
void read_yaml_file(const std::string& path, ConfigFields& fields);
std::string print_yaml(const ConfigFields& fields);

enum class ConfigOutcome { kRun, kExit };
// Parses argv: --config FILE, --print-config, --help, --version and one flag per field. kExit: it has printed
// what was asked. Throws ConfigError on anything wrong.
ConfigOutcome configure(int argc, char** argv, const std::string& program, const std::string& summary,
                        ConfigFields& fields);

}  // namespace lynx

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/config/config_values.h"
#include "common/config/yaml_reader.h"
#include "common/core/version.h"

namespace lynx {
namespace {

using config::Shape;

std::vector<std::string> split_commas(const std::vector<std::string>& values) {
  std::vector<std::string> items;
  for (const auto& value : values) {
    std::size_t begin = 0;
    while (begin <= value.size()) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      if (end > begin) items.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return items;
}

[[noreturn]] void wrong_flag(const ConfigFields::Field& field, const std::string& got) {
  const bool map = config::shape_of(field.target) == Shape::kMap;
  throw ConfigError("--" + field.path + ": expected " + config::expectation(field.target) +
                    (map ? ", written name=1.5,other=2" : "") + ", got '" + got + "'");
}

void set_map(const ConfigFields::Field& field, const std::vector<std::string>& values) {
  std::map<std::string, double> entries;
  for (const auto& item : split_commas(values)) {
    const std::size_t equals = item.find('=');
    const auto number =
        equals == std::string::npos ? std::nullopt : config::parse_double(item.substr(equals + 1));
    if (!number || equals == 0 || !entries.emplace(item.substr(0, equals), *number).second)
      wrong_flag(field, item);
  }
  *std::get<std::map<std::string, double>*>(field.target) = std::move(entries);
}

void set_from_flag(const ConfigFields::Field& field, const std::vector<std::string>& values) {
  switch (config::shape_of(field.target)) {
    case Shape::kList:
      *std::get<std::vector<std::string>*>(field.target) = split_commas(values);
      return;
    case Shape::kMap:
      return set_map(field, values);
    case Shape::kScalar: {
      std::string text = values.empty() ? "" : values.back();
      if (text.empty() && std::holds_alternative<bool*>(field.target)) text = "true";  // the bare flag
      if (!config::set_scalar(field.target, text)) wrong_flag(field, text);
      return;
    }
  }
}

std::string value_hint(const ConfigFields::Target& target) {
  switch (config::shape_of(target)) {
    case Shape::kList:
      return "A,B,...";
    case Shape::kMap:
      return "NAME=NUMBER,...";
    case Shape::kScalar:
      break;
  }
  return "[" + config::print_scalar(target) + "]";
}

CLI::Option* add_flag_of(CLI::App& app, const ConfigFields::Field& field) {
  CLI::Option* option = app.add_option("--" + field.path, field.help);
  const std::size_t dot = field.path.rfind('.');
  option->group(dot == std::string::npos ? "Settings" : field.path.substr(0, dot));
  option->type_name(value_hint(field.target));
  if (std::holds_alternative<bool*>(field.target)) {
    option->expected(0, 1);
  } else if (config::shape_of(field.target) != Shape::kScalar) {
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  return option;
}

void refuse_extras(const CLI::App& app, const ConfigFields& fields) {
  const auto extras = app.remaining();
  if (extras.empty()) return;
  std::vector<std::string> flags{"--config", "--print-config", "--help", "--version"};
  for (const auto& field : fields.fields()) flags.push_back("--" + field.path);
  throw ConfigError("unknown argument '" + extras[0] + "'" +
                    config::suggestion(extras[0].substr(0, extras[0].find('=')), flags));
}

}  // namespace

ConfigOutcome configure(int argc, char** argv, const std::string& program, const std::string& summary,
                        ConfigFields& fields) {
  CLI::App app(summary, program);
  app.allow_extras();
  std::string file;
  bool print = false;
  app.add_option("--config", file, "YAML file; flags override it")->type_name("FILE");
  app.add_flag("--print-config", print, "print the resulting configuration as YAML and exit");
  app.set_version_flag("--version", program + " " + std::string(version()));
  std::vector<CLI::Option*> options;
  for (const auto& field : fields.fields()) options.push_back(add_flag_of(app, field));

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e, std::cout, std::cerr);
    return ConfigOutcome::kExit;
  } catch (const CLI::ParseError& e) {
    throw ConfigError(e.what());
  }
  refuse_extras(app, fields);
  if (!file.empty()) read_yaml_file(file, fields);
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i]->count() > 0) set_from_flag(fields.fields()[i], options[i]->results());
  }
  if (!print) return ConfigOutcome::kRun;
  std::cout << print_yaml(fields);
  return ConfigOutcome::kExit;
}

}  // namespace lynx

#include <algorithm>
#include <set>

#include "common/config/config_values.h"
#include "common/config/yaml_reader.h"

namespace lynx {
namespace {

using config::Shape;
using Fields = std::vector<ConfigFields::Field>;

void print_value(std::string& out, const ConfigFields::Target& target, const std::string& indent) {
  switch (config::shape_of(target)) {
    case Shape::kScalar:
      out += " " + config::print_scalar(target);
      return;
    case Shape::kList: {
      const auto& items = *std::get<std::vector<std::string>*>(target);
      if (items.empty()) out += " []";
      for (const auto& item : items) out += "\n" + indent + "  - " + config::print_string(item);
      return;
    }
    case Shape::kMap: {
      const auto& entries = *std::get<std::map<std::string, double>*>(target);
      if (entries.empty()) out += " {}";
      for (const auto& [key, value] : entries)
        out += "\n" + indent + "  " + config::print_string(key) + ": " + config::print_double(value);
      return;
    }
  }
}

void print_field(std::string& out, const ConfigFields::Field& field, const std::string& name,
                 const std::string& indent) {
  std::string help = field.help;
  std::replace(help.begin(), help.end(), '\n', ' ');
  out += indent + "# " + help + "\n" + indent + name + ":";
  print_value(out, field.target, indent);
  out += "\n";
}

// A section is printed whole where its first field stands, so that no key comes twice.
void print_section(std::string& out, const Fields& fields, const std::string& prefix,
                   const std::string& indent) {
  std::set<std::string> printed;
  for (const auto& field : fields) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string rest = field.path.substr(prefix.size());
    const std::string name = rest.substr(0, rest.find('.'));
    if (name == rest) {
      print_field(out, field, name, indent);
    } else if (printed.insert(name).second) {
      out += indent + name + ":\n";
      print_section(out, fields, prefix + name + ".", indent + "  ");
    }
  }
}

}  // namespace

std::string print_yaml(const ConfigFields& fields) {
  std::string out;
  print_section(out, fields.fields(), "", "");
  return out;
}

}  // namespace lynx

#include "common/text/chat_template.h"

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "common/core/json_error.h"
#include "common/core/read_file.h"
#include "common/text/template_error.h"
#include "common/text/template_evaluator.h"
#include "common/text/template_parser.h"

namespace lynx {
namespace {

using nlohmann::json;

// The key chat_template: a text, or a list of named ones of which "default" is meant.
std::string template_of(const json& config, const std::filesystem::path& path) {
  const auto found = config.find("chat_template");
  if (found != config.end() && found->is_string()) return *found;
  if (found != config.end() && found->is_array())
    for (const json& named : *found)
      if (named.is_object() && named.value("name", json()) == "default" &&
          named.value("template", json()).is_string())
        return named["template"];
  throw std::runtime_error(path.string() + ": chat_template: is missing, or no text");
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Body body;
  std::string name;
  jinja::Value globals = jinja::Value::object();  // bos_token and friends
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(const std::string& source, const std::string& name) {
  try {
    return ChatTemplate(std::make_unique<Impl>(Impl{jinja::parse_template(source), name}));
  } catch (const jinja::TemplateError& error) {
    throw std::runtime_error(name + ":" + error.what());
  }
}

ChatTemplate ChatTemplate::from_model_folder(const std::string& folder) {
  const std::filesystem::path config_path = std::filesystem::path(folder) / "tokenizer_config.json";
  const std::filesystem::path template_path = std::filesystem::path(folder) / "chat_template.jinja";
  const json config = json::parse(
      std::filesystem::exists(config_path) ? read_file(config_path.string()) : std::string(), nullptr, false);
  if (!config.is_object()) throw std::runtime_error(config_path.string() + ": is missing or no JSON object");

  ChatTemplate out = std::filesystem::exists(template_path)
                         ? parse(read_file(template_path.string()), template_path.string())
                         : parse(template_of(config, config_path), config_path.string() + ": chat_template");
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    if (!config.contains(key)) continue;
    const json& token = config[key];
    out.impl_->globals[key] = jinja::Value(token.is_object() ? token.value("content", json()) : token);
  }
  return out;
}

Result<std::string> ChatTemplate::render(const json& messages, bool add_generation_prompt) const {
  jinja::Value globals = impl_->globals;
  globals["messages"] = jinja::Value(messages);
  globals["add_generation_prompt"] = add_generation_prompt;
  try {
    return jinja::evaluate(impl_->body, globals);
  } catch (const jinja::Raised& raised) {
    return {ErrorCode::kInvalidArgument, "messages: " + raised.message};
  } catch (const jinja::TemplateError& error) {
    return {ErrorCode::kInvalidArgument,
            "messages do not fit the chat template: " + impl_->name + ":" + error.what()};
  } catch (const json::exception& error) {
    return {ErrorCode::kInvalidArgument, "messages do not fit the chat template: " + json_reason(error)};
  }
}

}  // namespace lynx

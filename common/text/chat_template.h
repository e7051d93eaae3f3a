// Renders a model's chat template: the subset of Jinja that published chat templates use (for, if, set,
// filters, tests, namespace, string and list methods; README names them). What it does not know is refused at
// load, with line and text. Immutable after load; render from any thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/core/result.h"

namespace lynx {

class ChatTemplate {
 public:
  // Throws std::runtime_error "name:line: what is wrong".
  static ChatTemplate parse(const std::string& source, const std::string& name);
  // From tokenizer_config.json (key chat_template) or chat_template.jinja beside it. Throws when there is
  // neither.
  static ChatTemplate from_model_folder(const std::string& folder);

  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // messages: the array of the request. A template's raise_exception becomes an Error (kInvalidArgument).
  Result<std::string> render(const nlohmann::json& messages, bool add_generation_prompt) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx

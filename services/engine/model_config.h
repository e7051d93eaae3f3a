// config.json and generation_config.json of a Hugging Face folder into a ModelConfig. Start-up only: throws
// std::runtime_error "path: key: reason" for whatever is missing, malformed or would need code that is not
// here.
#pragma once

#include <cstdint>
#include <string>

#include "services/engine/model.h"

namespace lynx {

// generation_config.json may be missing; its eos_token_id wins over config.json's.
ModelConfig read_model_config(const std::string& folder);

// From the texts; `generation` may be empty. The names stand in errors.
ModelConfig parse_model_config(const std::string& text, const std::string& name,
                               const std::string& generation, const std::string& generation_name);

}  // namespace lynx

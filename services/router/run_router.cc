#include <filesystem>

#include "common/config/model_folder.h"
#include "common/core/log.h"
#include "services/router/router_service.h"

namespace lynx {
namespace {

// A model without a template still serves completions; a template that cannot be read is an error.
std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "chat_template.jinja") &&
      !std::filesystem::exists(folder / "tokenizer_config.json"))
    return std::nullopt;
  return ChatTemplate::from_model_folder(folder.string());
}

}  // namespace

void run_router(const RouterConfig& config) {
  const std::filesystem::path folder(config.model_path);
  check_model_folder(config.model_path);
  EventLoop loop;
  RouterService service(loop, config, Tokenizer::from_file((folder / "tokenizer.json").string()),
                        load_chat_template(folder));
  loop.on_terminate([&] { service.drain([&] { loop.stop(); }); });
  log::info("model '{}': API on {}:{}, workers on {}:{}", config.served_model(), config.http_host,
            service.http_port(), config.control_host, service.control_port());
  loop.run();
  log::info("stopped");
}

}  // namespace lynx

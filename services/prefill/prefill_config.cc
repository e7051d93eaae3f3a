#include "services/prefill/prefill_config.h"

#include "common/config/field_checks.h"

namespace lynx {

void PrefillConfig::describe(ConfigFields& f) {
  worker.describe(f);
  f.section("");
  f.field("max_batch", &max_batch, "prompts of one step");
  f.section("prefill");
  f.field("chunk_tokens", &chunk_tokens, "tokens of one step; a cancelled prompt stops within one");
  f.field("queue_limit", &settings.queue_limit, "prompts that may wait for KV blocks");
  f.field("prefix_cache", &settings.prefix_cache, "reuse the KV of prompts that begin alike");
  f.field("push_timeout", &settings.push_timeout, "longest life of one KV push");
}

void PrefillConfig::validate() const {
  worker.validate();
  check_field(max_batch > 0 && max_batch <= 4096, "max_batch", "must be from 1 to 4096");
  check_field(chunk_tokens > 0 && chunk_tokens <= 65'536, "prefill.chunk_tokens", "must be from 1 to 65536");
  check_field(settings.push_timeout.count() > 0, "prefill.push_timeout", "must be above 0");
}

}  // namespace lynx

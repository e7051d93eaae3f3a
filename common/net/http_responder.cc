#include "common/net/http_connection.h"

namespace lynx {

Responder::~Responder() {
  if (phase_ == Phase::kDone) return;
  if (const auto connection = open_connection()) connection->give_up(phase_ == Phase::kStreaming);
}

std::shared_ptr<HttpConnection> Responder::open_connection() const {
  auto connection = connection_.lock();
  return connection != nullptr && connection->open() ? connection : nullptr;
}

void Responder::complete() {
  phase_ = Phase::kDone;
  gone_ = nullptr;
}

void Responder::respond(HttpResponse response) {
  if (phase_ != Phase::kWaiting) return;
  const auto connection = open_connection();
  if (connection == nullptr) return;
  complete();
  connection->respond(response);
}

void Responder::begin_stream(int status, std::string_view content_type) {
  if (phase_ != Phase::kWaiting) return;
  const auto connection = open_connection();
  if (connection == nullptr) return;
  phase_ = Phase::kStreaming;
  connection->begin_stream(status, content_type);
}

void Responder::write(std::string chunk) {
  if (phase_ != Phase::kStreaming || chunk.empty()) return;
  if (const auto connection = open_connection()) connection->write_chunk(chunk);
}

void Responder::finish() {
  if (phase_ != Phase::kStreaming) return;
  const auto connection = open_connection();
  if (connection == nullptr) return;
  complete();
  connection->finish_stream();
}

void Responder::on_disconnect(std::function<void()> gone) {
  if (phase_ == Phase::kDone) return;
  if (phase_ == Phase::kGone || connection_.expired()) return loop_.post(std::move(gone));
  gone_ = std::move(gone);
}

bool Responder::connected() const { return open_connection() != nullptr; }

void Responder::client_gone() {
  phase_ = Phase::kGone;
  if (const auto gone = std::exchange(gone_, nullptr)) gone();
}

}  // namespace lynx

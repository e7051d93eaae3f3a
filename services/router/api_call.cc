#include "services/router/api_call.h"

#include <utility>

#include "services/router/http_replies.h"

namespace lynx {
namespace {

constexpr int kClientGone = 499;
constexpr std::size_t kPieceBytes = 384;  // a chunk of one token, with room to spare

std::string_view finish_word(TokenFinish finish) {
  switch (finish) {
    case TokenFinish::kNone:
      return "";
    case TokenFinish::kStop:
      return "stop";
    case TokenFinish::kLength:
      return "length";
  }
  return "";
}

}  // namespace

void ApiCall::start(CallContext& context, const ApiRequest& request, ReplyHead head,
                    std::vector<SequenceSpec> sequences, std::shared_ptr<HttpResponder> responder,
                    std::function<void()> ended) {
  const auto call =
      std::make_shared<ApiCall>(context, request, std::move(head), sequences, responder, std::move(ended));
  responder->on_disconnect([weak = std::weak_ptr(call)] {
    if (const auto alive = weak.lock()) alive->client_gone();
  });
  call->submit(std::move(sequences));
}

ApiCall::ApiCall(CallContext& context, const ApiRequest& request, ReplyHead head,
                 const std::vector<SequenceSpec>& sequences, std::shared_ptr<HttpResponder> responder,
                 std::function<void()> ended)
    : context_(context),
      head_(std::move(head)),
      stream_reply_(head_, request.include_usage),
      stream_(request.stream),
      include_usage_(request.include_usage),
      logprobs_(request.sampling.logprobs),
      receipt_(request.sampling.receipt),
      slo_class_(sequences.front().slo_class),
      arrival_(sequences.front().arrival),
      responder_(std::move(responder)),
      ended_(std::move(ended)),
      open_choices_(sequences.size()) {
  choices_.reserve(sequences.size());
  for (const auto& spec : sequences) choices_.emplace_back(request, context.tokenizer, spec);
  for (std::size_t i = 0; i < sequences.size(); i += request.n) prompt_tokens_ += sequences[i].prompt.size();
}

void ApiCall::submit(std::vector<SequenceSpec> sequences) {
  for (std::uint32_t i = 0; i < choices_.size() && !over_; ++i)
    choices_[i].flow = context_.dispatcher.submit(std::move(sequences[i]), i, shared_from_this());
}

bool ApiCall::on_token(std::uint32_t index, const GeneratedToken& token) {
  Choice& choice = choices_[index];
  ++choice.tokens;
  if (receipt_ && token.receipt) choice.receipt.add(*token.receipt);
  const auto out = choice.text.push(token);
  choice.finish = out.stopped ? "stop" : finish_word(token.finish);
  if (logprobs_) choice.logprobs.push(token);
  if (stream_) {
    send_piece(index, choice, out.text);
  } else {
    choice.whole_text += out.text;
  }
  observe_token(choice);
  return out.stopped;
}

// One chunk per token, even when its text is held back: the client then sees when tokens come.
void ApiCall::send_piece(std::uint32_t index, Choice& choice, const std::string& text) {
  if (!streaming_) open_stream();
  std::string out;
  out.reserve(kPieceBytes);
  if (choice.tokens == 1 && head_.kind == ApiKind::kChat) stream_reply_.role(out, index);
  const std::string logprobs = logprobs_ ? choice.logprobs.take() : std::string();
  stream_reply_.piece(out, {index, text, choice.finish, logprobs});
  responder_->write(std::move(out));
}

void ApiCall::open_stream() {
  streaming_ = true;
  responder_->begin_stream(200, "text/event-stream");
}

void ApiCall::observe_token(Choice& choice) {
  const auto now = context_.clock.now();
  auto& metrics = context_.metrics.of(slo_class_);
  if (choice.tokens == 1) {
    choice.first_token = now;
    metrics.ttft->Observe(seconds(now - arrival_));
  } else {
    metrics.itl->Observe(seconds(now - choice.last_token));
  }
  choice.last_token = now;
}

void ApiCall::observe_end(const Choice& choice, bool finished) {
  const SloClass& promised = context_.classes[slo_class_];
  SloOutcome met;
  met.ttft = choice.tokens > 0 && choice.first_token - arrival_ <= promised.ttft;
  met.tpot = finished;
  if (choice.tokens > 1) {
    const auto per_token =
        (choice.last_token - choice.first_token) / static_cast<std::int64_t>(choice.tokens - 1);
    context_.metrics.of(slo_class_).tpot->Observe(seconds(per_token));
    met.tpot = finished && per_token <= promised.tpot;
  }
  met.all = met.ttft && met.tpot;
  context_.metrics.slo(slo_class_, met);
}

void ApiCall::observe_receipt(const Receipt& receipt) {
  if (receipt.steps() == 0) return;  // not asked for, or one token: prefill's
  auto& metrics = context_.metrics.of(slo_class_);
  metrics.remapped_share->Observe(receipt.remapped_share());
  metrics.router_mass_mean->Observe(receipt.router_mass_mean());
  metrics.router_mass_worst->Observe(receipt.router_mass_worst());
  metrics.batch_mean->Observe(receipt.batch_mean());
}

void ApiCall::on_finished(std::uint32_t index) {
  choices_[index].ended = true;
  observe_end(choices_[index], true);
  observe_receipt(choices_[index].receipt);
  if (--open_choices_ == 0 && !over_) complete();
}

void ApiCall::on_failed(std::uint32_t index, const ApiError& error) {
  choices_[index].ended = true;
  observe_end(choices_[index], false);
  if (over_) return;
  over_ = true;
  for (const Choice& choice : choices_)
    if (!choice.ended) observe_end(choice, false);  // its siblings end with it
  cancel_rest();
  if (streaming_) {
    std::string out;
    StreamReply::error(out, error);
    StreamReply::done(out);
    responder_->write(std::move(out));
    responder_->finish();
  } else {
    respond_error(*responder_, error);
  }
  end(error.status);
}

void ApiCall::complete() {
  over_ = true;
  context_.metrics.of(slo_class_).e2e->Observe(seconds(context_.clock.now() - arrival_));
  if (stream_) {
    std::string out;
    if (include_usage_) stream_reply_.usage(out, usage());
    StreamReply::done(out);
    responder_->write(std::move(out));
    responder_->finish();
  } else {
    send_whole();
  }
  end(200);
}

void ApiCall::send_whole() {
  std::vector<std::string> logprobs(choices_.size());  // the pieces below look into it
  std::vector<ReplyPiece> pieces;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    if (logprobs_) logprobs[i] = choices_[i].logprobs.take();
    pieces.push_back({i, choices_[i].whole_text, choices_[i].finish, logprobs[i]});
  }
  respond_json(*responder_, 200, whole_reply(head_, pieces, usage()));
}

Usage ApiCall::usage() const {
  Usage out{prompt_tokens_, 0};
  for (const auto& choice : choices_) out.completion_tokens += choice.tokens;
  if (!receipt_) return out;
  auto& receipt = out.receipt.emplace();
  for (const auto& choice : choices_) receipt.add(choice.receipt);
  return out;
}

void ApiCall::client_gone() {
  if (std::exchange(over_, true)) return;
  cancel_rest();
  end(kClientGone);
}

void ApiCall::cancel_rest() {
  for (auto& choice : choices_)
    if (!std::exchange(choice.ended, true) && choice.flow != 0) context_.dispatcher.cancel(choice.flow);
}

void ApiCall::end(int code) {
  context_.metrics.request_done(code);
  std::exchange(ended_, nullptr)();
}

}  // namespace lynx

// One API request on its way: its choices, their texts, the stream or the whole reply, and the times the
// client saw. It lives as long as its flows. A client that hangs up ends every choice at once, whatever phase
// it is in. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/http_server.h"
#include "services/router/dispatcher.h"
#include "services/router/logprob_text.h"
#include "services/router/openai_reply.h"
#include "services/router/sequence_text.h"

namespace lynx {

struct CallContext {  // outlives every call
  Dispatcher& dispatcher;
  const Tokenizer& tokenizer;
  RouterMetrics& metrics;
  const Clock& clock;
  const std::vector<SloClass>& classes;
};

class ApiCall final : public SequenceListener, public std::enable_shared_from_this<ApiCall> {
 public:
  // ended runs once, when the last byte has been handed to the server or the client has gone.
  static void start(CallContext& context, const ApiRequest& request, ReplyHead head,
                    std::vector<SequenceSpec> sequences, std::shared_ptr<HttpResponder> responder,
                    std::function<void()> ended);

  ApiCall(CallContext& context, const ApiRequest& request, ReplyHead head,
          const std::vector<SequenceSpec>& sequences, std::shared_ptr<HttpResponder> responder,
          std::function<void()> ended);

  bool on_token(std::uint32_t choice, const GeneratedToken& token) override;
  void on_finished(std::uint32_t choice) override;
  void on_failed(std::uint32_t choice, const ApiError& error) override;

 private:
  struct Choice {
    Choice(const ApiRequest& request, const Tokenizer& tokenizer, const SequenceSpec& spec)
        : text(tokenizer, {request.stop, request.stop_tokens, request.keep_stop, request.skip_special,
                           spec.sampling.min_tokens}),
          logprobs(request.kind, tokenizer, spec.sampling.top_logprobs) {}

    SequenceText text;
    LogprobText logprobs;
    Dispatcher::FlowId flow = 0;
    std::uint64_t tokens = 0;
    Receipt receipt;
    Clock::time_point first_token;
    Clock::time_point last_token;
    std::string whole_text;  // when not streaming
    std::string finish;
    bool ended = false;
  };

  void submit(std::vector<SequenceSpec> sequences);
  void send_piece(std::uint32_t index, Choice& choice, const std::string& text);
  void open_stream();
  void observe_token(Choice& choice);
  void observe_end(const Choice& choice, bool finished);
  void observe_receipt(const Receipt& receipt);
  void complete();
  void send_whole();
  void client_gone();
  void cancel_rest();
  void end(int code);
  Usage usage() const;

  CallContext& context_;
  const ReplyHead head_;
  const StreamReply stream_reply_;
  const bool stream_;
  const bool include_usage_;
  const bool logprobs_;
  const bool receipt_;
  const std::size_t slo_class_;
  const Clock::time_point arrival_;
  std::uint64_t prompt_tokens_ = 0;
  std::shared_ptr<HttpResponder> responder_;
  std::function<void()> ended_;
  std::vector<Choice> choices_;
  std::size_t open_choices_;
  bool streaming_ = false;  // the head of the stream has gone out
  bool over_ = false;
};

}  // namespace lynx

#include "tests/services/worker/recording_port.h"

namespace lynx::testing {
namespace {

HeardToken token_of(const WireId& wire, std::uint64_t step, proto::SampledToken::Reader in) {
  return {wire, step, in.getToken(), in.getIndex(), in.getFinish()};
}

}  // namespace

bool RecordingPort::send(LinkId link, capnp::MessageBuilder& message) {
  if (down.contains(link)) return false;
  const auto frame = message.getRoot<proto::Frame>().asReader();
  if (frame.isReserved()) {
    const auto in = frame.getReserved();
    const auto lease = in.getLease();
    HeardLease heard{{link, in.getRequest()},
                     {lease.getId(), lease.getGeneration(), lease.getKey()},
                     lease.getDeadlineMs(),
                     {}};
    for (const auto block : lease.getBlocks()) heard.blocks.push_back(block);
    leases.push_back(std::move(heard));
  } else if (frame.isBusy()) {
    const auto in = frame.getBusy();
    busy.push_back({{link, in.getRequest()}, in.getRetryAfterMs(), in.getReason().cStr()});
  } else if (frame.isEnded()) {
    const auto in = frame.getEnded();
    ended.push_back({{link, in.getRequest()},
                     static_cast<ErrorCode>(in.getFault().getCode()),
                     in.getFault().getMessage().cStr(),
                     in.getTransfer()});
  } else if (frame.isFirstToken()) {
    const auto in = frame.getFirstToken();
    first_tokens.push_back(token_of({link, in.getRequest()}, 0, in.getToken()));
  } else if (frame.isTokens()) {
    const auto in = frame.getTokens();
    token_frames.push_back({link, in.getStep(), in.getItems().size()});
    for (const auto item : in.getItems())
      tokens.push_back(token_of({link, item.getRequest()}, in.getStep(), item.getToken()));
  } else if (frame.isHandedOver()) {
    const auto in = frame.getHandedOver();
    handed_over.push_back({{link, in.getRequest()},
                           in.getBytes(),
                           in.getTransferSeconds(),
                           in.getExposedSeconds(),
                           {in.getExpertShares().begin(), in.getExpertShares().end()}});
  }
  return true;
}

}  // namespace lynx::testing

// How a worker's service talks to its routers. Behind it stands RouterLinks; tests read the frames instead.
// IO thread.
#pragma once

#include <capnp/message.h>

#include <cstdint>

namespace lynx {

using LinkId = std::uint64_t;

class RouterPort {
 public:
  virtual ~RouterPort() = default;
  // False: that link is down. Its requests are cancelled when on_link_down comes; nothing else needs doing.
  virtual bool send(LinkId link, capnp::MessageBuilder& message) = 0;
};

// A request's name: the id is unique within one router only.
struct WireId {
  LinkId link = 0;
  std::uint64_t request = 0;
  auto operator<=>(const WireId&) const = default;
};

}  // namespace lynx

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "common/core/log.h"
#include "common/net/byte_stream.h"
#include "common/net/control_link.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

// Doubles from the least to the most; the jitter keeps a fleet from knocking in step when a router comes
// back.
class Backoff {
 public:
  Backoff(milliseconds least, milliseconds most) : least_(least), most_(most), next_(least) {}

  milliseconds next() {
    const milliseconds delay = std::exchange(next_, std::min(next_ * 2, most_));
    return milliseconds(
        std::uniform_int_distribution<std::int64_t>(delay.count() / 2, delay.count())(random_));
  }
  void reset() { next_ = least_; }
  void slow() { next_ = most_; }

 private:
  const milliseconds least_;
  const milliseconds most_;
  milliseconds next_;
  std::minstd_rand random_{std::random_device()()};
};

// What the links of one worker share.
struct LinkContext {
  EventLoop& loop;
  ControlIdentity self;
  RouterLinks::Callbacks callbacks;
  RouterLinks::Times times;
  std::uint64_t last_id = 0;
  bool alive = true;
};

// One router: connect, prove, register, serve; after any failure back off and begin again.
class RouterLink : public std::enable_shared_from_this<RouterLink> {
 public:
  RouterLink(std::shared_ptr<LinkContext> context, TcpEndpoint endpoint)
      : context_(std::move(context)),
        endpoint_(std::move(endpoint)),
        backoff_(context_->times.min_backoff, context_->times.max_backoff) {}

  void connect() {
    connecting_ = connect_frames(context_->loop, endpoint_.address, endpoint_.port, context_->times.handshake,
                                 [this](Result<std::unique_ptr<FrameStream>> stream) {
                                   if (!stream) return fail(stream.error());
                                   prove(std::move(*stream));
                                 });
  }

  bool send(capnp::MessageBuilder& message) { return up() && stream_->send(message); }
  bool up() const { return id_ != 0; }
  std::uint64_t id() const { return id_; }
  const std::string& last_problem() const { return last_problem_; }
  bool wanted() const { return wanted_; }
  void set_wanted(bool wanted) { wanted_ = wanted; }

  void stop() {
    connecting_.reset();
    timer_.reset();
    stream_.reset();
    id_ = 0;
  }

 private:
  void prove(std::unique_ptr<FrameStream> stream) {
    prove_link(context_->loop, std::move(stream), context_->self, context_->times.handshake,
               [weak = weak_from_this()](Result<std::unique_ptr<FrameStream>> proven, const std::string&) {
                 const auto link = weak.lock();
                 if (link == nullptr || !link->context_->alive) return;
                 if (!proven) return link->fail(proven.error());
                 link->enlist(std::move(*proven));
               });
  }

  void enlist(std::unique_ptr<FrameStream> stream) {
    stream_ = std::move(stream);
    stream_->start(
        {[this](proto::Frame::Reader frame) { on_frame(frame); }, [this](const Error& e) { fail(e); }});
    capnp::MallocMessageBuilder message;
    context_->callbacks.fill_register(message);
    stream_->send(message);
    timer_ = context_->loop.after(context_->times.handshake, [this] {
      fail({ErrorCode::kDeadlineExceeded, endpoint_.text() + " did not welcome us in time"});
    });
  }

  void on_frame(proto::Frame::Reader frame) {
    const auto self = shared_from_this();
    last_heard_ = std::chrono::steady_clock::now();
    if (up()) return context_->callbacks.on_frame(id_, frame);
    if (frame.isWelcome()) return come_up();
    if (frame.isRefused()) {
      backoff_.slow();
      const std::string reason = frame.getRefused().getMessage().cStr();
      fail({ErrorCode::kIncompatible, endpoint_.text() + " refused our registration: " + reason});
    }
  }

  void come_up() {
    id_ = ++context_->last_id;
    backoff_.reset();
    last_problem_.clear();
    log::info("registered with router {}", endpoint_.text());
    timer_ = context_->loop.every(context_->times.silence / 4, [this] { check_silence(); });
    context_->callbacks.on_up(id_);
  }

  void check_silence() {
    if (std::chrono::steady_clock::now() - last_heard_ < context_->times.silence) return;
    fail({ErrorCode::kDeadlineExceeded, endpoint_.text() + " has gone silent"});
  }

  void fail(const Error& error) {
    const auto self = shared_from_this();
    if (error.code == ErrorCode::kPermission || error.code == ErrorCode::kIncompatible) backoff_.slow();
    if (std::exchange(last_problem_, error.message) != error.message)  // the same again says nothing new
      log::warn("router link: {}", error.message);
    const std::uint64_t lost = id_;
    stop();
    timer_ = context_->loop.after(backoff_.next(), [this] {
      if (wanted_) connect();
    });
    if (lost != 0) context_->callbacks.on_down(lost, error);
  }

  std::shared_ptr<LinkContext> context_;
  const TcpEndpoint endpoint_;
  Backoff backoff_;
  std::unique_ptr<FrameConnect> connecting_;
  std::unique_ptr<FrameStream> stream_;
  std::unique_ptr<Timer> timer_;  // of the phase we are in: welcome, silence or back-off
  TimePoint last_heard_;
  std::uint64_t id_ = 0;  // 0 = not up
  bool wanted_ = true;
  std::string last_problem_;
};

// A worker that does not care about an event leaves its callback empty.
RouterLinks::Callbacks with_defaults(RouterLinks::Callbacks callbacks) {
  if (!callbacks.fill_register)
    callbacks.fill_register = [](capnp::MallocMessageBuilder& m) {
      m.initRoot<proto::Frame>().initRegister();
    };
  if (!callbacks.on_frame) callbacks.on_frame = [](std::uint64_t, proto::Frame::Reader) {};
  if (!callbacks.on_up) callbacks.on_up = [](std::uint64_t) {};
  if (!callbacks.on_down) callbacks.on_down = [](std::uint64_t, const Error&) {};
  return callbacks;
}

std::vector<TcpEndpoint> one_family(std::vector<TcpEndpoint> endpoints) {
  const bool v4 = std::any_of(endpoints.begin(), endpoints.end(), [](const auto& e) { return !e.v6; });
  if (v4) std::erase_if(endpoints, [](const auto& e) { return e.v6; });
  return endpoints;
}

}  // namespace

struct RouterLinks::Impl {
  struct Name {
    RouterAddress address;
    std::unique_ptr<Pending> resolving;
    std::unique_ptr<Timer> next;
    std::set<std::string> endpoints;
  };

  void resolve(Name& name) {
    name.resolving = resolve_tcp(context->loop, name.address.host, name.address.port,
                                 [this, &name](Result<std::vector<TcpEndpoint>> found) {
                                   const bool ok = found.ok();
                                   if (ok) update(name, one_family(std::move(*found)));
                                   if (!ok) log::warn("{}", found.error().message);
                                   const auto& times = context->times;
                                   name.next = context->loop.after(ok ? times.refresh : times.max_backoff,
                                                                   [this, &name] { resolve(name); });
                                 });
  }

  // A router that has left its name keeps its connection for as long as that lives, and is then forgotten.
  void update(Name& name, const std::vector<TcpEndpoint>& found) {
    name.endpoints.clear();
    for (const TcpEndpoint& endpoint : found) {
      name.endpoints.insert(endpoint.text());
      auto& link = links[endpoint.text()];
      if (link != nullptr) continue;
      link = std::make_shared<RouterLink>(context, endpoint);
      link->connect();
    }
    for (auto& [key, link] : links) link->set_wanted(is_named(key));
    std::erase_if(links, [](const auto& entry) {
      const bool forget = !entry.second->wanted() && !entry.second->up();
      if (forget) entry.second->stop();
      return forget;
    });
  }

  bool is_named(const std::string& endpoint) const {
    return std::any_of(names.begin(), names.end(),
                       [&](const Name& name) { return name.endpoints.contains(endpoint); });
  }

  std::shared_ptr<LinkContext> context;
  std::vector<Name> names;                                   // fixed after construction
  std::map<std::string, std::shared_ptr<RouterLink>> links;  // by address:port
};

RouterLinks::RouterLinks(EventLoop& loop, ControlIdentity self, std::vector<RouterAddress> routers,
                         Callbacks callbacks, Times times)
    : impl_(std::make_shared<Impl>()) {
  impl_->context = std::make_shared<LinkContext>(
      LinkContext{loop, std::move(self), with_defaults(std::move(callbacks)), times});
  for (auto& router : routers) impl_->names.push_back({std::move(router), nullptr, nullptr, {}});
  for (auto& name : impl_->names) impl_->resolve(name);
}

RouterLinks::~RouterLinks() {
  impl_->context->alive = false;
  for (const auto& [key, link] : impl_->links) link->stop();
}

bool RouterLinks::send(std::uint64_t link, capnp::MessageBuilder& message) {
  for (const auto& [key, candidate] : impl_->links) {
    if (candidate->up() && candidate->id() == link) return candidate->send(message);
  }
  return false;
}

void RouterLinks::broadcast(capnp::MessageBuilder& message) {
  for (const auto& [key, link] : impl_->links) link->send(message);
}

std::string RouterLinks::last_problem() const {
  for (const auto& [key, link] : impl_->links)
    if (!link->up() && !link->last_problem().empty()) return link->last_problem();
  return {};
}

std::size_t RouterLinks::up() const {
  const auto& links = impl_->links;
  return static_cast<std::size_t>(
      std::count_if(links.begin(), links.end(), [](const auto& l) { return l.second->up(); }));
}

}  // namespace lynx

// The routers of a worker: who stands behind the names it was given, and a link to each.
#include <algorithm>
#include <map>
#include <set>

#include "common/core/log.h"
#include "common/net/router_link.h"

namespace lynx {
namespace {

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

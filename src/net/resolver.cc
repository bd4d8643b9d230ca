// Names to addresses.
//
// Numbers need nobody, and names in /etc/hosts only that file. For the rest there is getaddrinfo(), which
// follows the machine's configuration (nsswitch, search domains, mDNS …) and blocks its thread for as
// long as it likes, deaf to cancellation. So it is called on threads of its own, at most kMostThreads, which
// are made when needed and end when idle; whoever waits for the answer parks, and may leave. Then his request leaves the
// queue with him: nobody stands behind it, and the queue is no longer than those who wait are many. One that a thread
// has begun with keeps the thread, and nobody looks at the answer.
//
// Rejected: a resolver of our own (ten pages of configuration to get wrong); getaddrinfo_a (its threads
// cannot be bounded, and a request cannot be taken back).
//
// Go: net/lookup.go, net/hosts.go, net/cgo_unix.go
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <new>
#include <sys/socket.h>

#include <weft/context.h>
#include <weft/net.h>
#include <weft/select.h>

#include "io/own_thread.h"
#include "net/address.h"
#include "net/hosts.h"
#include "net/lookup_error.h"
#include "os/test_hooks.h"

namespace weft::net {

std::error_code lookup_error(int code) noexcept {
  switch (code) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY: return errc::no_such_host;
    case EAI_AGAIN: return std::make_error_code(std::errc::resource_unavailable_try_again);
    case EAI_MEMORY: return std::make_error_code(std::errc::not_enough_memory);
    case EAI_SYSTEM: return {errno, std::system_category()};
    case EAI_SERVICE: return std::make_error_code(std::errc::invalid_argument);
    default:
      return errc::server_misbehaving;  // EAI_FAIL; we ask for nothing that could have the others
  }
}

}  // namespace weft::net

namespace weft::net::resolver {

namespace {

constexpr int kMostThreads = 32;
constexpr auto kIdle = std::chrono::seconds(5);

struct request;
using request_queue = std::list<std::shared_ptr<request>>;

struct request {
  std::string host, service;
  // -- by the crew's lock
  request_queue::iterator place;
  bool queued = false;
  // -- written before `done` is closed
  std::vector<endpoint> found;
  std::error_code error;
  chan<unit> done;
};

// Never destroyed: its threads may outlive main().
struct crew {
  std::mutex lock;
  std::condition_variable wanted;
  request_queue queue;
  int threads = 0;
  int idle = 0;
};

crew& the_crew() {
  static crew& c = *new crew;  // NOLINT: see above
  return c;
}

// By a test, which may hold it.
bool is_delayed() {
  const auto& hook = rt::os::test_hooks.resolver_delay_ms;
  const std::int64_t delay = hook.get();
  if (delay == 0) {
    return false;
  }
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay < 0 ? 1 : delay));
  } while (delay < 0 && hook.get() < 0);
  return true;
}

void ask_system(request& r) {
  rt::os::test_hooks.resolver_asked.count_up();
  if (is_delayed()) {
    std::uint16_t port = 0;
    endpoint e;
    if (r.host == "slow.test" && numeric_port(r.service, &port) && numeric("127.0.0.1", port, &e)) {
      r.found.push_back(e);
      return;
    }
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = r.host.empty() ? 0 : AI_ADDRCONFIG;  // of no host there is the port to be known
  addrinfo* list = nullptr;
  const int code =
      getaddrinfo(r.host.empty() ? nullptr : r.host.c_str(), r.service.c_str(), &hints, &list);
  if (code != 0) {
    r.error = lookup_error(code);
    return;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    if (const endpoint e = endpoint::from(a->ai_addr, a->ai_addrlen)) {
      r.found.push_back(e);
    }
  }
}

void serve() {
  crew& c = the_crew();
  std::unique_lock held(c.lock);
  for (;;) {
    ++c.idle;
    const bool work = c.wanted.wait_for(held, kIdle, [&] { return !c.queue.empty(); });
    --c.idle;
    if (!work) {
      --c.threads;
      return;
    }
    const std::shared_ptr<request> r = std::move(c.queue.front());
    c.queue.pop_front();
    r->queued = false;
    held.unlock();
    try {
      ask_system(*r);
    } catch (const std::bad_alloc&) {  // whoever asked gets it; this thread is nobody's
      r->error = std::make_error_code(std::errc::not_enough_memory);
    }
    r->done.close();
    held.lock();
  }
}

// Gives the request to somebody. An error: there is no thread, and none can be had.
std::error_code post(const std::shared_ptr<request>& r) {
  crew& c = the_crew();
  const std::lock_guard held(c.lock);
  if (c.idle <= static_cast<int>(c.queue.size()) && c.threads < kMostThreads) {
    const std::error_code none = rt::on_own_thread(serve);
    if (!none) {
      ++c.threads;
    } else if (c.threads == 0) {
      return none;
    }
  }
  r->place = c.queue.insert(c.queue.end(), r);
  r->queued = true;
  c.wanted.notify_one();
  return {};
}

// Whoever has asked has left.
void withdraw(request& r) {
  crew& c = the_crew();
  const std::lock_guard held(c.lock);
  if (r.queued) {
    c.queue.erase(r.place);
    r.queued = false;
  }
}

// Those that /etc/hosts has for the name.
std::vector<endpoint> from_hosts(std::string_view host, std::uint16_t port) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/hosts", "re"), std::fclose);
  return file != nullptr ? hosts_in(file.get(), host, port) : std::vector<endpoint>();
}

std::vector<endpoint> from_system(const host_port& parts, const context& ctx, std::error_code& ec) {
  const auto r = std::make_shared<request>();
  r->host = parts.host;
  r->service = parts.port;
  ec = post(r);
  if (ec) {
    return {};
  }
  bool answered = false;
  select(recv(r->done, [&](auto&&) { answered = true; }), recv(ctx.done(), [](auto&&) {}));
  if (!answered) {
    withdraw(*r);
    ec = ctx.err();
    return {};
  }
  ec = r->error;
  if (!ec && r->found.empty()) {
    ec = errc::no_such_host;
  }
  return std::move(r->found);
}

const char* lookup_parts(std::string_view address, const context& ctx, std::error_code& ec,
                         std::vector<endpoint>* found) {
  host_port parts;
  if (const char* wrong = split(address, &parts)) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return wrong;
  }
  std::uint16_t port = 0;
  const bool has_number = numeric_port(parts.port, &port);
  // The name of a service begins with a letter, or with digits before one: no sign, or space, which libc would take for
  // the beginning of a number.
  constexpr std::string_view digits = "0123456789";
  const std::size_t other = parts.port.find_first_not_of(digits);
  if (!has_number && (other == parts.port.npos ||
                      std::isalpha(static_cast<unsigned char>(parts.port[other])) == 0)) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return "invalid port";
  }
  ec = ctx.err();
  if (ec) {
    return nullptr;
  }
  if (parts.host.empty()) {  // this machine
    if (!has_number) {
      const std::vector<endpoint> service = from_system(parts, ctx, ec);
      if (ec) {
        return nullptr;
      }
      port = service.front().port();
    }
    found->push_back(endpoint("127.0.0.1:" + std::to_string(port)));
    found->push_back(endpoint("[::1]:" + std::to_string(port)));
    return nullptr;
  }
  if (has_number) {
    endpoint e;
    if (numeric(parts.host, port, &e)) {
      found->push_back(e);
    } else {
      *found = from_hosts(parts.host, port);
    }
  }
  if (found->empty()) {
    *found = from_system(parts, ctx, ec);
  }
  return nullptr;
}

}  // namespace

std::vector<endpoint> lookup(std::string_view address, const context& ctx, std::error_code& ec) {
  std::vector<endpoint> found;
  lookup_parts(address, ctx, ec, &found);
  return found;
}

std::vector<endpoint> lookup(std::string_view address, std::error_code& ec) {
  return lookup(address, context(), ec);
}

std::vector<endpoint> lookup(std::string_view address, const context& ctx) {
  std::error_code ec;
  std::vector<endpoint> found;
  const char* wrong = lookup_parts(address, ctx, ec, &found);
  if (ec) {
    throw std::system_error(ec, "lookup " + std::string(address) +
                                    (wrong != nullptr ? std::string(": ") + wrong : std::string()));
  }
  return found;
}

std::vector<endpoint> lookup(std::string_view address) { return lookup(address, context()); }

}  // namespace weft::net::resolver

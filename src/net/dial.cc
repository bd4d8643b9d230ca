// Connecting by name: several addresses, two families, one deadline.
//
// Addresses of one family are tried one after the other, each with its share of the time that is left. If
// there are two families, the second begins 300 ms after the first, or as soon as that has failed, and the
// first connection wins; the loser is cancelled, and closed if it came too late.
//
// Go: net/dial.go dialParallel, dialSerial, partialDeadline; RFC 8305
#include "net/dial.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sys/socket.h>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/select.h>

#include "net/address.h"

namespace weft::net {

namespace {

using list = std::vector<endpoint>;
using owned_socket = std::unique_ptr<socket_object>;

constexpr auto kHeadStart = std::chrono::milliseconds(300);
constexpr auto kLeastShare = std::chrono::seconds(2);

owned_socket dial_one(const endpoint& to, const context& ctx, std::error_code& ec) {
  owned_socket s;
  // A port of this machine's own choice may be connected to itself by chance.
  for (int i = 0; i < 3; ++i) {
    s.reset(connect_to(to, SOCK_STREAM, "tcp", ctx, ec));
    if (s == nullptr || !(s->local() == s->remote())) {
      break;
    }
    ec = std::make_error_code(std::errc::connection_refused);
    s.reset();
  }
  return s;
}

// The first error counts: it is that of the best address. But who cancels, or whose time is over, before all have been tried
// hears of that.
owned_socket dial_serially(const list& addresses, const context& ctx, std::error_code& ec) {
  std::error_code first;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    ec = ctx.err();
    if (ec) {
      return nullptr;
    }
    const auto deadline = ctx.deadline();
    owned_socket s;
    if (deadline && i + 1 < addresses.size()) {
      const auto now = clock::now();
      const auto share = share_of(*deadline - now, addresses.size() - i);
      const auto [part, cancel] = with_deadline(ctx, now + share);
      s = dial_one(addresses[i], part, ec);
      cancel();
    } else {
      s = dial_one(addresses[i], ctx, ec);
    }
    if (s != nullptr) {
      return s;
    }
    first = first ? first : ec;
  }
  ec = first;
  return nullptr;
}

struct outcome {
  owned_socket s;
  std::error_code ec;
  bool primary = false;
};

struct race {
  race(const context& parent, chan<outcome> to) : ctx(parent), results(std::move(to)) {}

  void start(list addresses, bool primary) {
    go([addresses = std::move(addresses), ctx = ctx, results = results, primary] {
      outcome o;
      o.primary = primary;
      o.s = dial_serially(addresses, ctx, o.ec);
      results.send(std::move(o));
    });
    ++running;
  }

  context ctx;
  chan<outcome> results;
  int running = 0;
};

owned_socket dial_in_parallel(const list& first, const list& second, const context& ctx,
                              std::error_code& ec) {
  const auto [child, cancel] = with_cancel(ctx);
  race r(child, chan<outcome>(2));
  r.start(first, true);
  timer head_start(kHeadStart);
  bool second_started = false;
  std::error_code errors[2];
  owned_socket winner;
  const auto start_second = [&] {
    if (!second_started) {
      second_started = true;
      r.start(second, false);
    }
  };
  while (r.running > 0 && winner == nullptr) {
    select(recv(r.results,
                [&](std::optional<outcome> o) {
                  --r.running;
                  winner = std::move(o->s);
                  errors[o->primary ? 0 : 1] = o->ec;
                  if (winner == nullptr && !ctx.err()) {
                    start_second();
                  }
                }),
           recv(head_start.c(), [&](auto&&) { start_second(); }));
  }
  cancel();  // what the loser may still bring is destroyed with the channel
  ec = winner != nullptr ? std::error_code() : errors[0] ? errors[0] : errors[1];
  return winner;
}

}  // namespace

// One part in n; but not less than kLeastShare if there is that.
clock::duration share_of(clock::duration left, std::size_t n) {
  return std::min(left, std::max<clock::duration>(left / static_cast<int>(n), kLeastShare));
}

owned_socket dial_any(const list& addresses, const context& ctx, std::error_code& ec) {
  list first, second;
  for (const endpoint& e : addresses) {
    (e.family() == addresses.front().family() ? first : second).push_back(e);
  }
  if (second.empty()) {
    return dial_serially(first, ctx, ec);
  }
  return dial_in_parallel(first, second, ctx, ec);
}

namespace {

tcp_conn dial_name(std::string_view address, const context& ctx, std::error_code& ec) {
  const list found = resolver::lookup(address, ctx, ec);
  if (ec) {
    return {};
  }
  return net_access::make<tcp_conn>(dial_any(found, ctx, ec).release());
}

}  // namespace

tcp_conn dial(const endpoint& to, const context& ctx, std::error_code& ec) {
  if (!to.is_v4() && !to.is_v6()) {
    ec = errc::mismatch;
    return {};
  }
  return net_access::make<tcp_conn>(dial_one(to, ctx, ec).release());
}
tcp_conn dial(const endpoint& to, std::error_code& ec) { return dial(to, context(), ec); }
tcp_conn dial(const endpoint& to, const context& ctx) {
  std::error_code ec;
  tcp_conn c = dial(to, ctx, ec);
  if (ec) {
    fail("dial", "tcp", to.to_string(), ec);
  }
  return c;
}
tcp_conn dial(const endpoint& to) { return dial(to, context()); }

tcp_conn dial(std::string_view address, const context& ctx, std::error_code& ec) {
  return dial_name(address, ctx, ec);
}
tcp_conn dial(std::string_view address, std::error_code& ec) {
  return dial_name(address, context(), ec);
}
tcp_conn dial(std::string_view address, const context& ctx) {
  std::error_code ec;
  tcp_conn c = dial_name(address, ctx, ec);
  if (ec) {
    host_port parts;
    fail("dial", "tcp", address, ec, split(address, &parts));
  }
  return c;
}
tcp_conn dial(std::string_view address) { return dial(address, context()); }

}  // namespace weft::net

// What a poller is to the rest: it learns from the kernel which descriptors have become ready, and
// returns that as a list. It wakes nobody and knows no goroutine.
//
// The contract, for epoll.cc and whatever may come beside it:
//   poller_start    once, before the others; false: the kernel refused (errno)
//   poller_add      news of both directions from now on, once per change (edge-triggered), with `name`;
//                   whatever is ready already is news, too. Returns 0 or an errno.
//   poller_remove   no more; news that was collected before may still be under way
//   poller_watch    while fd is readable whoever waits returns (level-triggered); it is no news itself
//   poller_rearm    what is ready now becomes news again
//   poller_wait     news, waiting for it until `deadline` at most: 0 not at all, kNever for ever. Several
//                   threads may look at once, but only one waits. May return nothing early.
//   poller_break    whoever waits, or is about to, returns; any thread, any number of times
#pragma once

#include <cstdint>

namespace weft::rt {

struct poll_news {
  std::uint64_t name;
  bool readable;
  bool writable;
  bool hung_up;  // the end, an error or urgent data: there may be no more news
};

inline constexpr int kMostNews = 128;

bool poller_start() noexcept;
int poller_add(int fd, std::uint64_t name) noexcept;
int poller_watch(int fd) noexcept;
void poller_remove(int fd) noexcept;
void poller_rearm(int fd, std::uint64_t name) noexcept;
int poller_wait(poll_news* news, std::int64_t deadline) noexcept;
void poller_break() noexcept;

}  // namespace weft::rt

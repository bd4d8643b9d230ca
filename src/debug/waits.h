// Who waits for what, since when, and who could end it: the last part of a deadlock report.
//
//   waits:
//           goroutine 1: sync.Mutex.Lock of 0x5580a0 (app::accounts) for 2.1s, held by goroutine 7 since
//                   app::transfer(...) /home/app/bank.cc:31
//           goroutine 7: chan receive of 0x7f10a0, made by main(...) /home/app/main.cc:12, for 2.1s
//   cycle: goroutine 1 waits for goroutine 7 waits for goroutine 1
//
// Who holds a mutex is in it (debug/lock_owners.h); since where, and who reads a shared one, is known with
// WEFTDEBUG=lockcheck=1 (sync/lockcheck.h). An object is described by its symbol, or by where
// it was made, which it knows by its first word (weft/detail/made.h), and whose stack it lies on. Goroutines that nobody can wake are leaked: debug/leak.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/print.h"

namespace weft::detail {
struct channel;
struct select_case;
}  // namespace weft::detail

namespace weft::rt {

struct G;

// For all goroutines that wait. Neither allocates nor locks.
void print_waits(printer& out) noexcept;

// Those who wait for each other, while the rest of the program runs; nothing if there are none.
void print_partial_deadlocks(printer& out) noexcept;

// Nobody else can reach the channel, or any of the channels, that it waits for.
bool is_leaked(const G& gp) noexcept;

// It waits for one channel, by send or receive.
bool waits_for_channel(const G& gp) noexcept;

// A channel that somebody waits for, perhaps no longer.
bool is_readable(const detail::channel* c) noexcept;

// The channels of a goroutine that is in a select; none if it is not, or no longer.
class channels_of_select {
 public:
  explicit channels_of_select(const G& gp) noexcept;
  std::size_t count() const { return count_; }
  detail::channel* at(std::size_t i) const noexcept;  // null: a case without one
  bool is_send(std::size_t i) const noexcept;
  bool is_timeout(std::size_t i) const noexcept;

 private:
  const detail::select_case* cases_ = nullptr;
  std::size_t count_ = 0;
};

// An object by its address, and its symbol, whose stack it lies on, or where it comes from.
struct object_origin {
  const void* made_by = nullptr;     // null: unknown
  const void* first_lock = nullptr;  // likewise
};
void print_object(printer& out, const void* object, const object_origin& from = {}) noexcept;

// Of what has a made_word. It may be gone by now.
object_origin origin_of(const void* object) noexcept;

// Sets what sync/lockcheck.h reports. Once, while booting.
void install_lock_reports() noexcept;

}  // namespace weft::rt

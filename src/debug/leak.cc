// Goroutines that nobody can ever wake: is_leaked() of debug/waits.h.
//
// A channel counts its handles. If all of them lie in the closures of goroutines that wait for this very
// channel, without a limit, nobody else can use it: those goroutines are leaked. But a closure may be
// referred to: `go([c] { go([&c] { c.send(1); }); c.recv(); })`. So the closures of all others are searched
// for addresses inside those closures, and one that is found is believed.
//
// A reference that is kept elsewhere, on the heap or by a plain thread, is missed. Rejected: no search at all
// (every goroutine of the example above was called leaked); a search of stacks, too (creators keep the addresses
// of closures in slots that nobody uses any more, so that nothing was ever called leaked).
//
// The world may run on meanwhile (WEFTDEBUG=dontfreezetheworld=1): whatever is followed is checked first.
#include <cstring>

#include "base/readable.h"
#include "chan/channel.h"
#include "debug/waits.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"

namespace weft::rt {

namespace {

constexpr std::size_t kHolders = 32;       // closures that are looked for; the rest is not
constexpr std::size_t kMostCases = 64;     // of a select
constexpr std::size_t kExamined = 20'000;  // goroutines; among more nothing is called leaked
constexpr std::size_t kHeapClosure = 512;  // bytes that are searched of one whose size is unknown

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

template <class T>
bool is_there(const T* object, std::size_t count = 1) {
  return address(object) % alignof(T) == 0 && readable(address(object), count * sizeof(T));
}

// Whether it waits, for ever, for this channel, perhaps among others.
WEFT_NO_TSAN bool is_stuck_on(const G& gp, const channel* c) {
  const void* const awaited = gp.awaited();
  if (!gp.in(g_status::waiting) || awaited == nullptr) return false;
  if (gp.reason != wait_reason::select) {
    return waits_for_channel(gp) && awaited == c && !gp.wait_is_limited();
  }
  const channels_of_select all(gp);
  bool found = false;
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (all.is_timeout(i)) return false;
    found = found || all.at(i) == c;
  }
  return found;
}

class reach {
 public:
  explicit reach(const channel* c) : channel_(c) {}

  // Nobody but those who wait for it can.
  WEFT_NO_TSAN bool nobody() {
    for_each_g(count, this);
    // order: CR0 relaxed, a count that is only looked at
    if (handles_ == 0 || handles_ < channel_->handles.load(WEFT_ORDER(CR0, relaxed))) return false;
    for_each_g(search, this);
    return !referred_ && examined_ <= kExamined;
  }

 private:
  static void count(G& gp, void* self) { static_cast<reach*>(self)->count_handles(gp); }
  static void search(G& gp, void* self) { static_cast<reach*>(self)->search_goroutine(gp); }

  WEFT_NO_TSAN void count_handles(const G& gp) {
    if (gp.closure != gp.inline_closure || !is_stuck_on(gp, channel_)) return;
    std::size_t n = 0;
    for (std::size_t at = 0; at + sizeof(void*) <= G::kInlineClosure; at += sizeof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, gp.inline_closure + at, sizeof word);
      n += word == channel_ ? 1 : 0;
    }
    handles_ += n;
    if (n > 0 && holder_count_ < kHolders) holders_[holder_count_++] = address(gp.inline_closure);
  }

  WEFT_NO_TSAN void search_goroutine(const G& gp) {
    if (referred_ || gp.in(g_status::dead) || gp.in(g_status::idle)) return;
    if (++examined_ > kExamined || is_stuck_on(gp, channel_)) return;
    const std::uintptr_t closure = address(gp.closure);
    if (gp.closure == gp.inline_closure) {
      search_words(closure, closure + G::kInlineClosure);
    } else if (closure % sizeof(void*) == 0 && readable(closure, kHeapClosure)) {
      search_words(closure, closure + kHeapClosure);
    }
  }

  // Not instrumented: the closure may be going.
  [[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void search_words(std::uintptr_t from,
                                                                          std::uintptr_t to) {
    for (; from + sizeof(void*) <= to; from += sizeof(void*)) {
      const std::uintptr_t word = *reinterpret_cast<const volatile std::uintptr_t*>(from);
      for (std::size_t i = 0; i < holder_count_; ++i) {
        if (word - holders_[i] < G::kInlineClosure) referred_ = true;
      }
    }
  }

  const channel* channel_;
  std::size_t handles_ = 0;
  std::size_t examined_ = 0;
  bool referred_ = false;
  std::size_t holder_count_ = 0;
  std::uintptr_t holders_[kHolders];
};

}  // namespace

bool waits_for_channel(const G& gp) noexcept {
  return gp.reason == wait_reason::chan_receive || gp.reason == wait_reason::chan_send;
}

bool is_readable(const detail::channel* c) noexcept { return is_there(c); }

WEFT_NO_TSAN channels_of_select::channels_of_select(const G& gp) noexcept {
  const auto* words = static_cast<const std::uintptr_t*>(gp.awaited());
  if (gp.reason != wait_reason::select || words == nullptr || !is_there(words, 2)) return;
  const awaited_cases all = cases_of_select(words);
  if (all.count > kMostCases || !is_there(all.cases, all.count)) return;
  cases_ = all.cases;
  count_ = all.count;
}

WEFT_NO_TSAN detail::channel* channels_of_select::at(std::size_t i) const noexcept {
  return cases_[i].ch;
}
WEFT_NO_TSAN bool channels_of_select::is_send(std::size_t i) const noexcept {
  return cases_[i].kind == detail::case_kind::send;
}
WEFT_NO_TSAN bool channels_of_select::is_timeout(std::size_t i) const noexcept {
  return cases_[i].kind == detail::case_kind::timeout;
}

WEFT_NO_TSAN bool is_leaked(const G& gp) noexcept {
  if (!gp.in(g_status::waiting) || gp.awaited() == nullptr) return false;
  if (waits_for_channel(gp)) {
    const auto* c = static_cast<const channel*>(gp.awaited());
    return !gp.wait_is_limited() && is_there(c) && reach(c).nobody();
  }
  const channels_of_select all(gp);
  bool any = false;
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (all.is_timeout(i)) return false;
    const channel* c = all.at(i);
    if (c == nullptr) continue;
    if (!is_there(c) || !reach(c).nobody()) return false;
    any = true;
  }
  return any;
}

}  // namespace weft::rt

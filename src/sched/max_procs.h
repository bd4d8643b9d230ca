// How many Ps there are, and who decides. See max_procs.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

// How many it will be told to have as soon as it has started. For who asks before that.
void propose_procs(std::int32_t n);

// What was proposed, by the environment, or the default. Once, at boot, before there are any.
std::int32_t initial_procs();

// [MP-1] n > 0: that many from now on, whatever the default does. Returns the number before.
// Runs on: G, plain thread. Blocks: G or thread.
std::int32_t set_procs(std::int32_t n);

// [MP-2] Back to the default as it is now, which is followed again.
// Runs on: G, plain thread. Blocks: G or thread.
void set_default_procs();

// For sysmon, in every round; `now` is nanotime(). Once a second it looks, unless WEFTDEBUG forbids. [CG-7]
// Runs on: sysmon. As follow_default_procs() otherwise.
void update_default_procs(std::int64_t now);

// Looks whether the default has changed, but not after set_procs(). If it has, a goroutine of the
// runtime's own will stop the world and set it. Neither allocates, nor takes locks of libc, nor creates
// a thread. Runs on: a thread without a P. Locks: acquires sched.lock. Blocks: M, for some microseconds.
void follow_default_procs();

// The part that looks. True: the default is *n, and differs from the present number.
bool default_procs_changed(std::int32_t* n);

// For tests, before the runtime starts: a tree of files instead of the machine's. Null: the machine's own again.
void look_for_limits_in(const char* tree);

// True once a second at most, by the caller's clock.
class once_a_second {
 public:
  bool due(std::int64_t now) {
    if (now < next_) {
      return false;
    }
    next_ = now + 1'000'000'000;
    return true;
  }

 private:
  std::int64_t next_ = 0;
};

}  // namespace weft::rt

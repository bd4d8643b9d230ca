// Goroutines as text: who waits for what, since when, and where.
//
//   goroutine 7 [sync.WaitGroup.Wait, 3 minutes, locked to thread] {name: reaper}:
//   app::worker(...)
//           ...
//   created by main(...) in goroutine 1
//
// Go: runtime/traceback.go goroutineheader, tracebackothers [DG-1]
//
// Goroutines are looked at while others may still run, without a lock: a G that changes meanwhile
// shows a torn or an odd stack, and nothing worse (debug/frame.h checks every read). One that runs on
// another thread is asked for its registers (debug/capture.h).
//
// A process may have a million of them. Up to a hundred are printed one by one; of more, those in
// the same state and at the same place are printed once, with their number and the first few ids.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fatal.h"
#include "base/print.h"
#include "debug/frame.h"
#include "debug/traceback.h"

namespace weft::rt {

struct G;
struct M;
class captured_thread;

// One dump: what was seen so far. Large, so that each user has a place for it that is no stack.
class goroutine_dump {
 public:
  using detail = traceback_level::detail;

  constexpr goroutine_dump() = default;

  void begin(printer& out, detail show) noexcept {
    out_ = &out;
    show_ = show;
    except_ = nullptr;
    separated_ = false;
  }
  // The goroutine that runs here, or has been interrupted here, whose innermost frame is given.
  void print_running(const G& gp, const frame& innermost) noexcept;
  // Something else that stands in the place of a goroutine: g0, a plain thread.
  void print_thread(const M* mp, const char* state, const frame& innermost) noexcept;
  // All the others.
  void print_others() noexcept;

 private:
  struct view;
  static constexpr std::size_t kGroups = 64;
  static constexpr std::size_t kIdsShown = 5;

  // Goroutines in one state and at one place.
  struct group {
    std::uint64_t hash = 0;
    std::uint64_t count = 0;
    const G* first = nullptr;
    std::uint64_t ids[kIdsShown] = {};  // of those after the first
  };
  // Return addresses and whether they are the runtime's; direct-mapped.
  struct known_pc {
    std::uintptr_t pc = 0;
    bool of_runtime = false;
  };
  enum class pass : std::uint8_t { count, print, group };

  static void visit(G& gp, void* self) noexcept;
  void for_each(pass what) noexcept;
  void count_one() noexcept { ++seen_; }
  void print_one(const G& gp) noexcept;
  void group_one(const G& gp) noexcept;
  void print_group(const group& g) noexcept;
  std::uint64_t hash_of(const view& v) noexcept;
  bool hidden(std::uintptr_t pc) noexcept;
  void separate() noexcept;
  void print_header(const view& v) noexcept;
  void print_goroutine(view v) noexcept;
  void print_captured(const captured_thread& thread) noexcept;

  printer* out_ = nullptr;
  const G* except_ = nullptr;
  detail show_ = detail::none;
  bool separated_ = false;
  pass pass_ = pass::count;
  std::uint64_t seen_ = 0;
  std::uint64_t elsewhere_ = 0;  // examined, but in no group, or not examined
  std::size_t group_count_ = 0;
  group groups_[kGroups];
  known_pc known_pcs_[256];
};

// That of crash reports, of which there is one at a time (base/fatal.h).
extern constinit goroutine_dump crash_dump;

// Hook for fatal(): the goroutine that runs here first, or for a fault of the runtime the stack of
// this thread; then all the others. Prints on the crash stack. Runs on: any. Locks: none.
void dump_goroutines(printer& out, fault whose) noexcept;

}  // namespace weft::rt

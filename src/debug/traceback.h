// Stacks as text, in Go's format:
//
//   app::worker(...)
//           /home/app/worker.cc:31 +0x52        or, without line tables: /usr/bin/app:0x1c52 +0x52
//   created by main(...) in goroutine 1
//           /usr/bin/app:0x1a0f +0x3f
//
// The number behind + is the distance from the start of the function; 0x1c52 is the address in the
// file, which addr2line -e FILE takes. Frames of the runtime itself are left out below level
// `system`, as in Go. Long stacks are cut in the middle: the first and the last 50 are shown.
//
// Allocates nothing and takes no lock, so that crash reports may use it (debug/loaded_file.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/print.h"
#include "debug/frame.h"

namespace weft::rt {

// How much is shown, from WEFTTRACEBACK.   Go: GOTRACEBACK [DG-5]
struct traceback_level {
  enum class detail : std::uint8_t {
    none,    // no stacks
    user,    // the user's frames
    system,  // the runtime's as well, with addresses
  };
  detail show = detail::user;
  bool all_goroutines = false;  // in panics too
  bool core = false;            // die of SIGABRT

  bool system() const { return show == detail::system; }
};

// Reads WEFTTRACEBACK=none|single|all|system|crash or a number. Called once at start-up.
void init_traceback_level() noexcept;
traceback_level current_traceback_level() noexcept;
traceback_level parse_traceback_level(const char* text) noexcept;

// The activations from `innermost` up. Prints nothing at detail::none.
void print_stack(printer& out, frame innermost, traceback_level::detail show) noexcept;

// `created by F in goroutine N`, with its place. parent 0: a plain thread.
void print_created_by(printer& out, const void* created_pc, std::uint64_t parent) noexcept;

// The return addresses from `innermost` up, at most `limit`; returns how many. To compare stacks.
std::size_t collect_pcs(frame innermost, std::uintptr_t* pcs, std::size_t limit) noexcept;

// The frame with this return address belongs to the runtime, and is hidden from users.
bool is_runtime_frame(std::uintptr_t pc) noexcept;

// For a finder of source lines (libdw, where it is there). Must neither allocate nor lock if it is
// to serve fatal errors. Null, the default: none.
struct source_line {
  const char* file = nullptr;
  int line = 0;
};
using line_finder = bool (*)(std::uintptr_t pc, source_line& found);
void set_line_finder(line_finder finder) noexcept;

}  // namespace weft::rt

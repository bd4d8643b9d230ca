// Stacks as text, in Go's format:
//
//   app::parse(...)
//           /home/app/parse.h:12                inlined into the next one: has no frame of its own
//   app::worker(...)
//           /home/app/worker.cc:31 +0x52        or, without line tables: /usr/bin/app:0x1c52 +0x52
//   created by main(...) in goroutine 1
//           /usr/bin/app:0x1a0f +0x3f
//
// The number behind + is the distance from the start of the function; 0x1c52 is the address in the
// file, which addr2line -e FILE takes. Frames of the runtime itself are left out below level
// `system`, as in Go. Long stacks are cut in the middle: the first and the last 50 are shown.
//
// Allocates nothing and takes no lock, so that crash reports may use it (debug/loaded_file.h,
// debug/source.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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

// Reads WEFTTRACEBACK=none|single|all|system|crash or a number; says so if it is something else. Called
// once at start-up.
void init_traceback_level() noexcept;
traceback_level current_traceback_level() noexcept;
std::optional<traceback_level> parse_traceback_level(std::string_view word) noexcept;

// The activations from `innermost` up. Prints nothing at detail::none.
void print_stack(printer& out, frame innermost, traceback_level::detail show) noexcept;

// `created by F in goroutine N`, with its place. parent 0: a plain thread.
void print_created_by(printer& out, const void* created_pc, std::uint64_t parent) noexcept;

// "app::transfer(...) /home/app/bank.cc:31": the innermost function of the user's at a return address.
void print_place(printer& out, const void* return_address) noexcept;

// The same for return addresses that were collected earlier.
void print_pcs(printer& out, const std::uintptr_t* pcs, std::size_t count,
               traceback_level::detail show) noexcept;

// The return addresses from `innermost` up, at most `limit`; returns how many. To compare stacks.
std::size_t collect_pcs(frame innermost, std::uintptr_t* pcs, std::size_t limit) noexcept;

// Where the nearest function above this one goes on that is neither weft's nor std's: the call that the user
// wrote. `near`: a return address of a caller, with which the search begins; as a rule it is the answer.
const void* user_call_site(const void* near) noexcept;

// The frame with this return address belongs to the runtime, and is hidden from users.
bool is_runtime_frame(std::uintptr_t pc) noexcept;

// Which stripped files the reports so far were about, with their build ids; nothing if there were none.
void print_stripped_files(printer& out) noexcept;

}  // namespace weft::rt

// See debug/traceback.h.
#include "debug/traceback.h"

#include <cstdlib>
#include <string_view>

#include "base/atomic.h"
#include "debug/demangle.h"
#include "debug/loaded_file.h"

namespace weft::rt {

namespace {

constexpr int kShownAtEachEnd = 50;  // [DG-3]
constexpr int kMaxFrames = 1 << 20;  // ends a walk over a corrupt stack

traceback_level level;  // constant after start-up
atomic<line_finder> finder{nullptr};

// A walk, frame by frame, that ends for sure (F1 in frame.h).
class stack_walk {
 public:
  explicit stack_walk(const frame& innermost) : frame_(innermost) {}
  const frame& current() const { return frame_; }
  bool next() { return ++steps_ < kMaxFrames && (last_ = step(frame_)) == frame_step::ok; }
  // The walk ended before the outermost frame was seen.
  bool broken() const { return last_ != frame_step::end; }

 private:
  frame frame_;
  int steps_ = 0;
  frame_step last_ = frame_step::ok;
};

// Functions of the runtime and of what carries exceptions. By their mangled names.
bool is_runtime_function(std::string_view name) {
  constexpr std::string_view kHidden[] = {
      "_ZN4weft2rt",
      "_ZNK4weft2rt",
      "_ZN4weft6detail",
      "_ZNK4weft6detail",
      "_ZZN4weft2rt",
      "_ZZN4weft6detail",
      "weft_",
      "_Unwind_",
      "__cxa_throw",
      "__cxa_rethrow",
      "_ZSt17rethrow_exception",
  };
  for (const std::string_view hidden : kHidden) {
    if (name.starts_with(hidden)) return true;
  }
  return false;
}

// Where one frame is: looked up once, then judged and printed.
struct place {
  std::uintptr_t pc = 0;
  std::uintptr_t call_site = 0;
  bool known = false;
  loaded_file file;
  symbol function;
};

place place_of(std::uintptr_t pc, std::uintptr_t call_site) {
  place p;
  p.pc = pc;
  p.call_site = call_site;
  p.known = find_loaded_file(call_site, p.file);
  if (p.known) p.function = find_symbol(p.file, call_site);
  return p;
}

// `previous`: the function shown just before. A template of weft that calls what was shown there is
// no news; if the call was inlined into it, it stands for the callable.
bool is_shown(const place& p, const place& previous, traceback_level::detail show) {
  if (show == traceback_level::detail::system || p.function.name == nullptr) return true;
  const user_callable callable(p.function.name);
  if (callable.text().empty()) return !is_runtime_function(p.function.name);
  if (previous.function.name == nullptr) return true;
  if (function_name(previous.function.name).text() == callable.text()) return false;
  return user_callable(previous.function.name).text() != callable.text();
}

void print_function(printer& out, const place& p, traceback_level::detail show) {
  if (p.function.name == nullptr) {
    out.hex(p.call_site).str("(...)");
    return;
  }
  const user_callable callable(p.function.name);
  if (show != traceback_level::detail::system && !callable.text().empty()) {
    out.str(callable.text()).str("(...)");
  } else {
    print_function_name(out, p.function.name);
  }
}

void print_line(printer& out, const place& p) {
  char path[256];
  out.chr('\t');
  source_line line;
  // order: TB1 acquire; pairs with set_line_finder
  const line_finder find_line = finder.load(WEFT_ORDER(TB1, acquire));
  if (find_line != nullptr && find_line(p.call_site, line)) {
    out.str(line.file).chr(':').dec(line.line);
  } else if (p.known) {
    out.str(display_path(p.file, path, sizeof path)).chr(':').hex(p.pc - p.file.load_bias);
  } else {
    out.chr('?');
  }
  if (p.function.name != nullptr) out.str(" +").hex(p.pc - p.function.start);
}

void print_frame(printer& out, const place& p, std::uintptr_t sp, traceback_level::detail show) {
  print_function(out, p, show);
  out.chr('\n');
  print_line(out, p);
  if (show == traceback_level::detail::system) out.str(" sp=").hex(sp).str(" pc=").hex(p.pc);
  out.chr('\n');
}

// The last frames of a long stack, kept until it is known that they are the last.
struct tail {
  struct entry {
    std::uintptr_t pc, call_site, sp;
  };
  entry ring[kShownAtEachEnd];
  int count = 0;

  void add(const frame& f) { ring[count++ % kShownAtEachEnd] = {f.pc, f.call_site(), f.sp()}; }

  void print(printer& out, traceback_level::detail show) const {
    if (count > kShownAtEachEnd) {
      out.str("...").dec(count - kShownAtEachEnd).str(" frames elided...\n");
    }
    for (int i = count > kShownAtEachEnd ? count - kShownAtEachEnd : 0; i < count; ++i) {
      const entry& e = ring[i % kShownAtEachEnd];
      print_frame(out, place_of(e.pc, e.call_site), e.sp, show);
    }
  }
};

}  // namespace

void print_stack(printer& out, frame innermost, traceback_level::detail show) noexcept {
  if (show == traceback_level::detail::none) return;
  stack_walk walk(innermost);
  tail rest;
  place previous;
  int shown = 0;
  do {
    const frame& f = walk.current();
    const place p = place_of(f.pc, f.call_site());
    if (!is_shown(p, previous, show)) continue;
    previous = p;
    if (shown < kShownAtEachEnd) {
      print_frame(out, p, f.sp(), show);
      ++shown;
    } else {
      rest.add(f);
    }
  } while (walk.next());
  rest.print(out, show);
  if (walk.broken()) out.str("...additional frames not known...\n");
}

void print_created_by(printer& out, const void* created_pc, std::uint64_t parent) noexcept {
  if (created_pc == nullptr) return;
  const auto pc = reinterpret_cast<std::uintptr_t>(created_pc);
  const place p = place_of(pc, pc - 1);
  out.str("created by ");
  print_function(out, p, traceback_level::detail::user);
  if (parent != 0) out.str(" in goroutine ").udec(parent);
  out.chr('\n');
  print_line(out, p);
  out.chr('\n');
}

std::size_t collect_pcs(frame innermost, std::uintptr_t* pcs, std::size_t limit) noexcept {
  stack_walk walk(innermost);
  std::size_t count = 0;
  do {
    if (count == limit) break;
    pcs[count++] = walk.current().pc;
  } while (walk.next());
  return count;
}

bool is_runtime_frame(std::uintptr_t pc) noexcept {
  const place p = place_of(pc, pc - 1);
  return p.function.name != nullptr && is_runtime_function(p.function.name);
}

void set_line_finder(line_finder wanted) noexcept {
  finder.store(wanted, WEFT_ORDER(TB1, release));  // order: TB1 pairs with print_line's acquire
}

traceback_level parse_traceback_level(const char* text) noexcept {
  using detail = traceback_level::detail;
  const std::string_view word = text == nullptr ? "" : text;
  if (word == "none" || word == "0") return {detail::none, false, false};
  if (word == "all" || word == "1") return {detail::user, true, false};
  if (word == "system") return {detail::system, true, false};
  if (word == "crash") return {detail::system, true, true};
  // Other numbers: all goroutines, in so much detail; we have two.
  bool digits = !word.empty();
  for (const char c : word) digits = digits && c >= '0' && c <= '9';
  if (digits) return {detail::system, true, false};
  return {};
}

void init_traceback_level() noexcept {
  level = parse_traceback_level(std::getenv("WEFTTRACEBACK"));
}

traceback_level current_traceback_level() noexcept { return level; }

}  // namespace weft::rt

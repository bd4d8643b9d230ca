// See debug/traceback.h.
#include "debug/traceback.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/atomic.h"
#include "debug/demangle.h"
#include "debug/elf_image.h"
#include "debug/loaded_file.h"
#include "debug/source.h"

namespace weft::rt {

namespace {

constexpr int kShownAtEachEnd = 50;  // [DG-3]
constexpr int kMaxFrames = 1 << 20;  // ends a walk over a corrupt stack

traceback_level level;  // constant after start-up

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

// Files in which a function had no name: whoever symbolises the report elsewhere must know which they
// were. Only ever added to; of two reporters at once, either's may be lost.
class stripped_files {
 public:
  void note(const loaded_file& file) {
    for (const atomic<std::uintptr_t>& known : begins_) {
      if (known.load(WEFT_ORDER(TB1, relaxed)) == file.begin) return;  // order: TB1 a lone number
    }
    // order: TB1 relaxed; lone numbers
    const std::size_t i = count_.fetch_add(1, WEFT_ORDER(TB1, relaxed));
    if (i < kMost) begins_[i].store(file.begin, WEFT_ORDER(TB1, relaxed));  // order: TB1 as above
  }
  void print(printer& out) const {
    bool first = true;
    for (const atomic<std::uintptr_t>& known : begins_) {
      const std::uintptr_t begin = known.load(WEFT_ORDER(TB1, relaxed));  // order: TB1 as above
      loaded_file file;
      if (begin == 0 || !find_loaded_file(begin, file)) continue;
      out.str(first ? "\nfiles without symbols (weft symbolize puts names into this report):\n"
                    : "");
      first = false;
      char path[256];
      out.chr('\t').str(display_path(file, path, sizeof path)).str(" build id ");
      const known_image* image = image_of(file);
      byte_range id = image == nullptr ? byte_range{} : image->head.build_id();
      if (!id && image != nullptr) id = image->file.build_id();
      if (!id) out.str("unknown");
      for (std::size_t i = 0; i < id.size; ++i) {
        out.chr("0123456789abcdef"[id.data[i] >> 4]).chr("0123456789abcdef"[id.data[i] & 15]);
      }
      out.chr('\n');
    }
  }

 private:
  static constexpr std::size_t kMost = 16;
  atomic<std::uintptr_t> begins_[kMost] = {};  // load addresses
  atomic<std::size_t> count_{0};
};
constinit stripped_files stripped;

// Distributions' own libraries are always stripped; nobody needs to be told.
bool is_systems(const loaded_file& file) {
  const std::string_view path = file.path;
  return path.starts_with("/lib") || path.starts_with("/usr/lib");
}

// One function on a stack: a frame has one, and one more for each that was inlined into it.
struct place {
  std::uintptr_t pc = 0;
  std::uintptr_t call_site = 0;
  std::uintptr_t sp = 0;
  bool known = false;    // the file is
  bool inlined = false;  // has no frame of its own
  bool wefts = false;    // inlined, by a name that tells nothing, into a function of weft's
  loaded_file file;
  symbol function;
  source_place source;
};

// The functions of one frame, innermost first.
class frame_places {
 public:
  frame_places(std::uintptr_t pc, std::uintptr_t call_site, std::uintptr_t sp = 0) {
    outermost_.pc = pc;
    outermost_.call_site = call_site;
    outermost_.sp = sp;
    outermost_.known = find_loaded_file(call_site, outermost_.file);
    if (!outermost_.known) return;
    has_source_ = find_source(call_site, source_, &outermost_.function);
  }

  int count() const { return has_source_ ? source_.count : 1; }
  place at(int i) const {
    place p = outermost_;
    if (!has_source_) return p;
    const source_function& f = source_.functions[i];
    p.source = f.place;
    p.inlined = i + 1 < source_.count;
    if (p.inlined && f.name != nullptr && is_callers(f.name)) return p;
    p.wefts = p.inlined && f.name != nullptr && is_wefts(f.name);
    if (p.inlined || p.function.name == nullptr) p.function.name = f.name;
    return p;
  }

 private:
  // Line tables alone do not say whose operator() it is. In what weft makes of the user's callables it
  // is the callable's, and the name of the frame says so (user_callable); in the runtime it is hidden.
  bool is_callers(std::string_view name) const {
    return name == "operator()" && outermost_.function.name != nullptr &&
           (is_runtime_function(outermost_.function.name) ||
            !user_callable(outermost_.function.name).text().empty());
  }

  // Nor do they say in whose namespace a function is (clang++ -g1).
  bool is_wefts(std::string_view name) const {
    const char* const outer = outermost_.function.name;
    return !name.starts_with("_Z") && outer != nullptr && user_callable(outer).text().empty() &&
           function_name(outer).text().starts_with("weft::");
  }

  place outermost_;
  bool has_source_ = false;
  source_frames source_;
};

// A template of weft's headers that has no mangled name of its own, because an argument is local to some
// function: line tables call it, say, `spawn<main()::<lambda()> >`.
bool is_header_template(const place& p) {
  if (!p.inlined || p.source.file == nullptr) return false;
  return !std::string_view(p.function.name).starts_with("_Z") &&
         (lies_in(p.source, "weft/detail") || lies_in(p.source, "weft"));
}

// `previous`: the function shown just before. A template of weft that calls what was shown there is
// no news; if the call was inlined into it, it stands for the callable.
bool is_shown(const place& p, const place& previous, traceback_level::detail show) {
  if (show == traceback_level::detail::system || p.function.name == nullptr) return true;
  const user_callable callable(p.function.name);
  if (callable.text().empty()) {
    return !p.wefts && !is_runtime_function(p.function.name) && !is_header_template(p);
  }
  if (previous.function.name == nullptr) return true;
  if (function_name(previous.function.name).text() == callable.text()) return false;
  return user_callable(previous.function.name).text() != callable.text();
}

void print_function(printer& out, const place& p, traceback_level::detail show) {
  if (p.function.name == nullptr) {
    out.hex(p.call_site).str("(...)");
    if (p.known && !is_systems(p.file)) stripped.note(p.file);
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
  if (p.source.file != nullptr) {
    print_path(out, p.source);
    out.chr(':').udec(p.source.line);
  } else if (p.known) {
    out.str(display_path(p.file, path, sizeof path)).chr(':').hex(p.pc - p.file.load_bias);
  } else {
    out.chr('?');
  }
  if (!p.inlined && p.function.name != nullptr) out.str(" +").hex(p.pc - p.function.start);
}

void print_frame(printer& out, const place& p, traceback_level::detail show) {
  print_function(out, p, show);
  out.str("\n\t");
  print_line(out, p);
  if (show == traceback_level::detail::system && !p.inlined) {
    out.str(" sp=").hex(p.sp).str(" pc=").hex(p.pc);
  }
  out.chr('\n');
}

// The last functions of a long stack, kept until it is known that they are the last.
struct tail {
  struct entry {
    std::uintptr_t pc, call_site, sp;
    int index;
  };
  entry ring[kShownAtEachEnd];
  int count = 0;

  void add(const place& p, int index) {
    ring[count++ % kShownAtEachEnd] = {p.pc, p.call_site, p.sp, index};
  }

  void print(printer& out, traceback_level::detail show) const {
    if (count > kShownAtEachEnd) {
      out.str("...").dec(count - kShownAtEachEnd).str(" frames elided...\n");
    }
    for (int i = count > kShownAtEachEnd ? count - kShownAtEachEnd : 0; i < count; ++i) {
      const entry& e = ring[i % kShownAtEachEnd];
      print_frame(out, frame_places(e.pc, e.call_site, e.sp).at(e.index), show);
    }
  }
};

// weft::go and the like, inlined into the function that creates a goroutine.
bool is_templates(const place& p) {
  if (p.function.name == nullptr) return false;
  if (!user_callable(p.function.name).text().empty()) return false;
  const function_name name(p.function.name);
  return name.text().starts_with("weft::") || is_header_template(p);
}

// …/c++/12/bits/invoke.h, or …/c++/12/tuple: the latter have names without a dot.
bool is_stds_header(const source_place& place) {
  const std::string_view file(place.file);
  return lies_in(place, "bits") || file.find('.', file.find_last_of('/') + 1) == file.npos;
}

// std::lock_guard, std::make_unique() and their relatives, which lock and make for the user. Some have no mangled
// names, as is_header_template() says.
bool is_stds(const place& p) {
  if (!p.inlined || p.function.name == nullptr) return false;
  const std::string_view name(p.function.name);
  if (!name.starts_with("_Z") && p.source.file != nullptr) return is_stds_header(p.source);
  return function_name(p.function.name).text().starts_with("std::");
}

}  // namespace

void print_stack(printer& out, frame innermost, traceback_level::detail show) noexcept {
  if (show == traceback_level::detail::none) return;
  stack_walk walk(innermost);
  tail rest;
  place previous;
  int shown = 0;
  do {
    const frame& f = walk.current();
    const frame_places places(f.pc, f.call_site(), f.sp());
    for (int i = 0; i < places.count(); ++i) {
      const place p = places.at(i);
      if (!is_shown(p, previous, show)) continue;
      previous = p;
      if (shown < kShownAtEachEnd) {
        print_frame(out, p, show);
        ++shown;
      } else {
        rest.add(p, i);
      }
    }
  } while (walk.next());
  rest.print(out, show);
  if (walk.broken()) out.str("...additional frames not known...\n");
}

void print_pcs(printer& out, const std::uintptr_t* pcs, std::size_t count,
               traceback_level::detail show) noexcept {
  place previous;
  for (std::size_t n = 0; n < count && show != traceback_level::detail::none; ++n) {
    const frame_places places(pcs[n], pcs[n] - 1);
    for (int i = 0; i < places.count(); ++i) {
      const place p = places.at(i);
      if (!is_shown(p, previous, show)) continue;
      previous = p;
      print_frame(out, p, traceback_level::detail::user);
    }
  }
}

void print_created_by(printer& out, const void* created_pc, std::uint64_t parent) noexcept {
  if (created_pc == nullptr) return;
  const auto pc = reinterpret_cast<std::uintptr_t>(created_pc);
  const frame_places places(pc, pc - 1);
  place p = places.at(0);
  for (int i = 1; i < places.count() && is_templates(p); ++i) p = places.at(i);
  out.str("created by ");
  print_function(out, p, traceback_level::detail::user);
  if (parent != 0) out.str(" in goroutine ").udec(parent);
  out.str("\n\t");
  print_line(out, p);
  out.chr('\n');
}

void print_place(printer& out, const void* return_address) noexcept {
  const auto pc = reinterpret_cast<std::uintptr_t>(return_address);
  const frame_places places(pc, pc - 1);
  place p = places.at(0);
  for (int i = 1; i < places.count() && (is_templates(p) || is_stds(p)); ++i) p = places.at(i);
  print_function(out, p, traceback_level::detail::user);
  out.chr(' ');
  print_line(out, p);
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

namespace {

// A function of the user's, or a template of weft's that his callable may have been merged into.
bool may_be_users(const char* mangled) {
  if (mangled == nullptr) return true;
  const std::string_view raw = mangled;
  if (raw.starts_with("weft_")) return false;
  const function_name name(mangled);
  if (name.text().starts_with("std::")) return false;
  return !name.text().starts_with("weft::") || !user_callable(mangled).text().empty();
}

}  // namespace

namespace {

// Names are looked up in a tenth of a millisecond, and the same few addresses come all the time. An entry is four times
// the address, plus 1 if it is the user's, plus 2 if it is the program's own, which is never unloaded. Others are compared
// with the file that is there now: the upper bits say which it was. Direct-mapped.
constexpr std::size_t kKnownCallers = 1024;
constexpr std::uintptr_t kUsers = 1, kForGood = 2;
constexpr int kFileShift = 50;  // addresses have 48 bits
constinit atomic<std::uintptr_t> known_callers[kKnownCallers] = {};

std::uintptr_t file_tag(const loaded_file& file) {
  const auto image = reinterpret_cast<std::uintptr_t>(image_of(file));
  return (image * 0x9e3779b97f4a7c15) >> kFileShift << kFileShift;
}

bool is_users(std::uintptr_t pc) {
  atomic<std::uintptr_t>& known = known_callers[(pc * 0x9e3779b97f4a7c15) >> 54];
  const std::uintptr_t entry = known.load(WEFT_ORDER(TB1, relaxed));  // order: TB1 a lone number
  if ((entry & ~kUsers) == (pc << 2 | kForGood)) return (entry & kUsers) != 0;
  loaded_file file;
  const bool loaded = find_loaded_file(pc - 1, file);
  const std::uintptr_t key =
      loaded && *file.path == '\0' ? pc << 2 | kForGood : (pc << 2) ^ (loaded ? file_tag(file) : 0);
  if ((entry & ~kUsers) == key) return (entry & kUsers) != 0;
  const symbol function = loaded ? find_symbol(file, pc - 1) : symbol{};
  const bool users = may_be_users(function.name);
  known.store(key | (users ? kUsers : 0), WEFT_ORDER(TB1, relaxed));  // order: TB1 as above
  return users;
}

}  // namespace

const void* user_call_site(const void* near) noexcept {
  constexpr int kNear = 24;  // std::make_shared() alone is ten, without optimisation
  if (is_users(reinterpret_cast<std::uintptr_t>(near))) return near;
  stack_walk walk(this_frame());
  for (int i = 0; i < kNear && walk.next(); ++i) {
    const std::uintptr_t pc = walk.current().pc;
    if (is_users(pc)) return reinterpret_cast<const void*>(pc);
  }
  return near;
}

bool is_runtime_frame(std::uintptr_t pc) noexcept {
  loaded_file file;
  if (!find_loaded_file(pc - 1, file)) return false;
  const symbol function = find_symbol(file, pc - 1);
  return function.name != nullptr && is_runtime_function(function.name);
}

void print_stripped_files(printer& out) noexcept { stripped.print(out); }

std::optional<traceback_level> parse_traceback_level(std::string_view word) noexcept {
  using detail = traceback_level::detail;
  if (word.empty() || word == "single") return traceback_level{};
  if (word == "none" || word == "0") return traceback_level{detail::none, false, false};
  if (word == "all" || word == "1") return traceback_level{detail::user, true, false};
  if (word == "system") return traceback_level{detail::system, true, false};
  if (word == "crash") return traceback_level{detail::system, true, true};
  // Other numbers: all goroutines, in so much detail; we have two.
  for (const char c : word) {
    if (c < '0' || c > '9') return std::nullopt;
  }
  return traceback_level{detail::system, true, false};
}

void init_traceback_level() noexcept {
  const char* text = std::getenv("WEFTTRACEBACK");
  const auto parsed = parse_traceback_level(text == nullptr ? "" : text);
  level = parsed.value_or(traceback_level{});
  if (!parsed) {
    printer out;
    out.str("runtime: WEFTTRACEBACK takes none, single, all, system, crash or a number: ");
    out.str(text).chr('\n');
  }
}

traceback_level current_traceback_level() noexcept { return level; }

}  // namespace weft::rt

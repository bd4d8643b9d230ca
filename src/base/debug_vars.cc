// See debug_vars.h. Parsing is by hand: no locale, no allocation.
#include "base/debug_vars.h"

#include <cstdlib>
#include <limits>

#include "base/at_start.h"

namespace weft::rt {

constinit debug_vars_t debug_vars;

namespace {

constexpr std::int32_t kAny = std::numeric_limits<std::int32_t>::max();

constexpr struct {
  std::string_view name;
  std::int32_t debug_vars_t::*field;
  std::int32_t most = 1;  // of 0 …
} kKnown[] = {
    {"asyncpreemptoff", &debug_vars_t::asyncpreemptoff},
    {"containermaxprocs", &debug_vars_t::containermaxprocs},
    {"dontfreezetheworld", &debug_vars_t::dontfreezetheworld},
    {"inittrace", &debug_vars_t::inittrace},
    {"iouring", &debug_vars_t::iouring},
    {"lockcheck", &debug_vars_t::lockcheck},
    {"madvdontneed", &debug_vars_t::madvdontneed},
    {"maxfrozen", &debug_vars_t::maxfrozen, kAny},
    {"migrate", &debug_vars_t::migrate},
    {"preemptsignal", &debug_vars_t::preemptsignal, 64},
    {"scheddetail", &debug_vars_t::scheddetail},
    {"schedextra", &debug_vars_t::schedextra},
    {"schedtrace", &debug_vars_t::schedtrace, kAny},
    {"stackusage", &debug_vars_t::stackusage},
    {"tracebackancestors", &debug_vars_t::tracebackancestors, 1000},
    {"updatemaxprocs", &debug_vars_t::updatemaxprocs},
};

// A decimal int32, perhaps negative.
bool parse(std::string_view text, std::int32_t* out) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return false;
  std::int64_t n = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    n = n * 10 + (digit - '0');
    if (n > std::numeric_limits<std::int32_t>::max()) return false;
  }
  *out = static_cast<std::int32_t>(negative ? -n : n);
  return true;
}

void apply(std::string_view entry, debug_vars_t& vars, printer& complaints) noexcept {
  const std::size_t equals = entry.find('=');
  const std::string_view key = entry.substr(0, equals);
  for (const auto& known : kKnown) {
    if (known.name != key) continue;
    std::int32_t value = 0;
    if (equals == entry.npos || !parse(entry.substr(equals + 1), &value)) {
      complaints.str("runtime: WEFTDEBUG key ").str(key).str(" needs a number: ").str(entry);
      complaints.chr('\n');
    } else if (value < 0 || value > known.most) {
      complaints.str("runtime: WEFTDEBUG key ").str(key).str(" takes 0 to ").dec(known.most);
      complaints.str(": ").str(entry).chr('\n');
    } else {
      vars.*known.field = value;
    }
    return;
  }
  complaints.str("runtime: unknown WEFTDEBUG key ").str(key).chr('\n');
}

}  // namespace

void parse_debug_vars(std::string_view text, debug_vars_t& vars, printer& complaints) noexcept {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (const std::string_view entry = text.substr(0, comma); !entry.empty()) {
      apply(entry, vars, complaints);
    }
    if (comma == text.npos) return;
    text.remove_prefix(comma + 1);
  }
}

WEFT_RUNS_AT_START void load_debug_vars() noexcept {
  if (const char* text = std::getenv("WEFTDEBUG")) {
    printer complaints;
    parse_debug_vars(text, debug_vars, complaints);
  }
}

}  // namespace weft::rt

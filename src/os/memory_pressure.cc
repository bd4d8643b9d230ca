// See memory_pressure.h.
#include "os/memory_pressure.h"

#include <unistd.h>

#include "os/small_file.h"

namespace weft::rt {

namespace {

int open_named(cgroup::path_text& path, const char* tree, std::string_view directory,
               std::string_view name) noexcept {
  path.clear();
  const bool fits = path.append(tree) && path.append(directory) && path.append(name);
  return fits ? open_to_read(path.c_str()) : -1;
}

using short_text = small_text<512>;

/// The digits at the front.
std::optional<std::int64_t> leading_number(std::string_view text) noexcept {
  const std::size_t end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || end > 18) return std::nullopt;
  std::int64_t n = 0;
  for (const char digit : text.substr(0, end)) n = n * 10 + (digit - '0');
  return n;
}

}  // namespace

std::optional<std::int64_t> parse_stall(std::string_view text) noexcept {
  constexpr std::string_view kTotal = " total=";
  const std::string_view line = text.substr(0, text.find('\n') + 1);  // with its end
  const std::size_t at = line.find(kTotal);
  if (!line.starts_with("some ") || at == std::string_view::npos) return std::nullopt;
  return leading_number(line.substr(at + kTotal.size()));
}

std::optional<std::int64_t> parse_memory_events(std::string_view text) noexcept {
  std::optional<std::int64_t> sum;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end + 1);
    for (const std::string_view key : {"high ", "max ", "oom "}) {
      if (!line.starts_with(key)) continue;
      const std::optional<std::int64_t> n = leading_number(line.substr(key.size()));
      if (!n) return std::nullopt;
      sum = sum.value_or(0) + *n;
    }
  }
  return sum;
}

bool memory_pressure::open(cgroup::scratch& s, const char* tree) noexcept {
  const keeps_errno keeper;
  close();
  cgroup::path_text& path = s.root;  // which is not needed any more by then
  if (cgroup::find_own_group(s, tree, "memory", kind_) != 0) {
    const std::string_view own = s.directory.view();
    if (kind_ == cgroup::version::v2) {
      stalls_ = open_named(path, tree, own, "/memory.pressure");
      events_ = open_named(path, tree, own, "/memory.events");
    } else {
      events_ = open_named(path, tree, own, "/memory.failcnt");
    }
  }
  if (stalls_ < 0) stalls_ = open_named(path, tree, "", "/proc/pressure/memory");
  short_text probe;
  if (stalls_ >= 0 && !probe.read(stalls_)) {  // there, but switched off: psi=0
    ::close(stalls_);
    stalls_ = -1;
  }
  return stalls_ >= 0 || events_ >= 0;
}

bool memory_pressure::stalled(std::int64_t now) noexcept {
  short_text text;
  if (stalls_ < 0 || !text.read(stalls_)) return false;
  const std::optional<std::int64_t> total = parse_stall(text.view());
  if (!total) return false;
  const std::int64_t lost = last_stall_ < 0 ? 0 : *total - last_stall_;
  const std::int64_t passed = (now - last_look_) / 1000;
  last_stall_ = *total;
  return lost > 0 && lost >= passed / kShare;
}

bool memory_pressure::met_limit() noexcept {
  short_text text;
  if (events_ < 0 || !text.read(events_)) return false;
  const std::optional<std::int64_t> count = kind_ == cgroup::version::v2
                                                ? parse_memory_events(text.view())
                                                : cgroup::parse_v1_number(text.view());
  if (!count) return false;
  const bool more = last_events_ >= 0 && *count > last_events_;
  last_events_ = *count;
  return more;
}

bool memory_pressure::rose(std::int64_t now) noexcept {
  const keeps_errno keeper;
  const bool stall = stalled(now);  // both, so that both know what they have seen
  const bool limit = met_limit();
  last_look_ = now;
  return stall || limit;
}

void memory_pressure::close() noexcept {
  if (stalls_ >= 0) ::close(stalls_);
  if (events_ >= 0) ::close(events_);
  *this = {};
}

}  // namespace weft::rt

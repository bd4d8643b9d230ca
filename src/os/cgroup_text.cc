// See cgroup_text.h.
#include "os/cgroup_text.h"

#include <algorithm>
#include <cstring>

namespace weft::rt::cgroup {

bool path_text::append(std::string_view more) noexcept {
  if (more.size() > kCapacity - length_) return false;
  more.copy(text_ + length_, more.size());
  shorten(length_ + more.size());
  return true;
}

// --- lines ------------------------------------------------------------------------------------------

line_reader::filling line_reader::fill() noexcept {
  if (begin_ != 0) {
    std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::ptrdiff_t got = read_(from_, buffer_ + end_, size_ - end_);
  if (got <= 0) return got == 0 ? filling::end : filling::failed;
  end_ += static_cast<std::size_t>(got);
  return filling::more;
}

line_reader::filling line_reader::skip_line() noexcept {
  for (;;) {
    const std::size_t newline = unread().find('\n');
    if (newline != std::string_view::npos) {
      begin_ += newline + 1;
      return filling::more;
    }
    begin_ = end_;
    if (const filling now = fill(); now != filling::more) return now;
  }
}

line_reader::result line_reader::next() noexcept {
  line_ = {};
  if (was_cut_) {
    was_cut_ = false;
    if (const filling rest = skip_line(); rest != filling::more) {
      return rest == filling::end ? result::end : result::failed;
    }
  }
  for (std::size_t seen = 0;;) {
    const std::size_t newline = unread().find('\n', seen);
    if (newline != std::string_view::npos) {
      line_ = unread().substr(0, newline);
      begin_ += newline + 1;
      return result::line;
    }
    seen = unread().size();
    if (seen == size_) {
      line_ = unread();
      begin_ = end_;
      was_cut_ = true;
      return result::cut;
    }
    const filling now = fill();
    if (now == filling::failed) return result::failed;
    if (now == filling::end) {
      line_ = unread();
      begin_ = end_;
      return line_.empty() ? result::end : result::line;
    }
  }
}

// --- which group ------------------------------------------------------------------------------------

namespace {

/// Takes what stands before the next separator off the text. False: there is no separator.
bool take_field(std::string_view& text, char separator, std::string_view& field) noexcept {
  const std::size_t end = text.find(separator);
  if (end == std::string_view::npos) return false;
  field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

bool has_element(std::string_view list, std::string_view wanted) noexcept {
  std::string_view element;
  while (take_field(list, ',', element)) {
    if (element == wanted) return true;
  }
  return list == wanted;
}

bool names_cpu(std::string_view controllers) noexcept { return has_element(controllers, "cpu"); }

version find_group(line_reader& membership, path_text& group,
                   std::string_view controller) noexcept {
  group.clear();
  version found = version::none;
  for (;;) {
    const line_reader::result got = membership.next();
    if (got == line_reader::result::end) return found;
    if (got != line_reader::result::line) return version::none;
    std::string_view path = membership.line();
    std::string_view id;
    std::string_view controllers;
    if (!take_field(path, ':', id) || !take_field(path, ':', controllers) ||
        !path.starts_with('/')) {
      return version::none;
    }
    const bool unified = id == "0";
    if (!unified && !has_element(controllers, controller)) continue;
    group.clear();
    if (!group.append(path)) return version::none;
    found = unified ? version::v2 : version::v1;
    if (!unified) return found;
  }
}

// --- where it is mounted ----------------------------------------------------------------------------

namespace {

struct mount {
  std::string_view root;   // what of the file system is mounted, escaped
  std::string_view point;  // where, escaped
  std::string_view type;
  std::string_view super_options;
};

/// 36 35 98:0 /part /point rw,noatime optional:1 … - type source rw,super
bool split_mount(std::string_view line, mount& out) noexcept {
  std::string_view ignored;
  for (int i = 0; i < 3; ++i) {
    if (!take_field(line, ' ', ignored)) return false;
  }
  if (!take_field(line, ' ', out.root) || !take_field(line, ' ', out.point)) return false;
  do {
    if (!take_field(line, ' ', ignored)) return false;
  } while (ignored != "-");
  if (!take_field(line, ' ', out.type) || !take_field(line, ' ', ignored)) return false;
  out.super_options = line;
  return true;
}

bool is_of(const mount& m, version which, std::string_view controller) noexcept {
  return which == version::v2 ? m.type == "cgroup2"
                              : m.type == "cgroup" && has_element(m.super_options, controller);
}

/// What is left of the group's path below the root of a mount. False: it is not below it.
bool below(std::string_view root, std::string_view group, std::string_view& rest) noexcept {
  if (root == "/") root = {};
  if (!group.starts_with(root)) return false;
  rest = group.substr(root.size());
  if (rest == "/") rest = {};
  if (!rest.empty() && rest.front() != '/') return false;  // "/ab" is not in "/a"
  return rest != "/.." && !rest.starts_with("/../");       // beside or above what is mounted
}

}  // namespace

bool append_unescaped(std::string_view text, path_text& to) noexcept {
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('\\'), text.size());
    if (!to.append(text.substr(0, plain))) return false;
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (text.size() < 4) return false;
    unsigned code = 0;
    for (const char digit : text.substr(1, 3)) {
      if (digit < '0' || digit > '7') return false;
      code = code * 8 + static_cast<unsigned>(digit - '0');
    }
    if (code == 0 || code > 0377) return false;
    const char decoded = static_cast<char>(code);
    if (!to.append({&decoded, 1})) return false;
    text.remove_prefix(4);
  }
  return true;
}

bool find_directory(line_reader& mounts, version which, std::string_view group,
                    path_text& directory, int& levels, path_text& root,
                    std::string_view controller) noexcept {
  for (;;) {
    const line_reader::result got = mounts.next();
    if (got == line_reader::result::end || got == line_reader::result::failed) return false;
    mount m;
    if (!split_mount(mounts.line(), m)) {
      // Options may be longer than any buffer; those of cgroups are not.
      if (got == line_reader::result::cut) continue;
      return false;
    }
    if (!is_of(m, which, controller)) continue;
    root.clear();
    if (!append_unescaped(m.root, root)) return false;
    std::string_view rest;
    if (!below(root.view(), group, rest)) continue;
    directory.clear();
    if (!append_unescaped(m.point, directory) || !directory.append(rest)) return false;
    levels = 1 + static_cast<int>(std::count(rest.begin(), rest.end(), '/'));
    return true;
  }
}

// --- how much ---------------------------------------------------------------------------------------

namespace {

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t n = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    const int value = digit - '0';
    if (n > (kMost - value) / 10) return std::nullopt;
    n = n * 10 + value;
  }
  return negative ? -n : n;
}

}  // namespace

std::optional<std::int64_t> processors(std::int64_t quota, std::int64_t period) noexcept {
  if (quota < 0 || period <= 0) return std::nullopt;
  return quota / period + (quota % period != 0 ? 1 : 0);
}

std::optional<std::int64_t> parse_v2_limit(std::string_view cpu_max) noexcept {
  std::string_view quota;
  if (!cpu_max.ends_with('\n') || !take_field(cpu_max, ' ', quota)) return std::nullopt;
  if (quota == "max") return kNoLimit;
  cpu_max.remove_suffix(1);
  const std::optional<std::int64_t> time = parse_number(quota);
  const std::optional<std::int64_t> period = parse_number(cpu_max);
  return time && period ? processors(*time, *period) : std::nullopt;
}

std::optional<std::int64_t> parse_v1_number(std::string_view text) noexcept {
  if (!text.ends_with('\n')) return std::nullopt;
  text.remove_suffix(1);
  return parse_number(text);
}

std::optional<std::int64_t> parse_v1_limit(std::string_view quota,
                                           std::string_view period) noexcept {
  const std::optional<std::int64_t> time = parse_v1_number(quota);
  if (!time) return std::nullopt;
  if (*time < 0) return kNoLimit;
  const std::optional<std::int64_t> length = parse_v1_number(period);
  return length ? processors(*time, *length) : std::nullopt;
}

}  // namespace weft::rt::cgroup

// HTTP/1.1 as far as a server needs it: the head of a request out of a buffer, the head of an answer into one.
//
// Strict where leniency has let requests be smuggled past others (RFC 9112 §11.2): lines end with CR LF, no
// blanks before a colon, no folded lines, one Content-Length, and none beside a Transfer-Encoding.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace http {

struct limits {
  std::size_t request_line = 4096;
  std::size_t head = 16 * 1024;  // with the request line
  std::uint64_t body = 1 << 20;
};

// Parts of the buffer that it was read from.
struct request {
  std::string_view method, target;
  std::string_view range, if_range, if_modified_since;
  std::uint64_t body = 0;
  bool version_1_0 = false;
  bool keep_alive = true;
  bool expects_continue = false;
};

// 0: more is needed. 200: a request, `size` bytes of head. Otherwise the status to refuse it with.
struct outcome {
  int status = 0;
  std::size_t size = 0;
};

inline bool same_word(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] + 32) : a[i];
    if (c != lower[i]) return false;
  }
  return true;
}

inline std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Whether f says yes to one part of "a, b, c".
template <class F>
bool any_of_list(std::string_view list, F f) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (f(trimmed(list.substr(0, comma)))) return true;
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
  }
  return false;
}

template <class Number>
bool whole_number(std::string_view s, Number& n) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && end == s.data() + s.size();
}

namespace detail {

inline constexpr std::array<bool, 256> kToken = [] {
  std::array<bool, 256> t{};
  for (int c = '0'; c <= '9'; ++c) t[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) {
    t[static_cast<std::size_t>(c)] = t[static_cast<std::size_t>(c - 32)] = true;
  }
  for (const char c :
       {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
    t[static_cast<std::size_t>(c)] = true;
  }
  return t;
}();

inline bool is_token(std::string_view s) {
  for (const char c : s) {
    if (!kToken[static_cast<unsigned char>(c)]) return false;
  }
  return !s.empty();
}

inline bool is_printable(std::string_view s) {
  for (const char c : s) {
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

// "GET /path HTTP/1.1". A proxy's form, "http://host/path", is understood, too.
inline int parse_request_line(std::string_view line, request& r) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return 400;
  r.method = line.substr(0, first);
  r.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version.size() != 8 || !version.starts_with("HTTP/")) return 400;
  if (!version.starts_with("HTTP/1.")) return 505;
  if (version[7] < '0' || version[7] > '9' || !is_token(r.method)) return 400;
  r.version_1_0 = version[7] == '0';
  if (r.target.starts_with("http://")) {
    const std::size_t slash = r.target.find('/', 7);
    r.target = slash == r.target.npos ? std::string_view("/") : r.target.substr(slash);
  }
  for (const char c : r.target) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return 400;
  }
  return r.target.starts_with('/') || r.target == "*" ? 200 : 400;
}

// What the fields of a head say together.
struct fields {
  int hosts = 0;
  bool has_length = false, has_coding = false, chunked = false, close = false, keep_alive = false;
};

inline int parse_field(std::string_view line, request& r, fields& seen) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon))) return 400;
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (!is_printable(value)) return 400;
  switch (name.size()) {  // most fields are of no interest
    case 4:
      if (same_word(name, "host")) ++seen.hosts;
      break;
    case 5:
      if (same_word(name, "range")) r.range = value;
      break;
    case 6:
      if (same_word(name, "expect")) r.expects_continue = same_word(value, "100-continue");
      break;
    case 8:
      if (same_word(name, "if-range")) r.if_range = value;
      break;
    case 10:
      if (same_word(name, "connection")) {
        seen.close |= any_of_list(value, [](auto s) { return same_word(s, "close"); });
        seen.keep_alive |= any_of_list(value, [](auto s) { return same_word(s, "keep-alive"); });
      }
      break;
    case 14:
      if (same_word(name, "content-length")) {
        std::uint64_t n = 0;
        if (!whole_number(value, n) || (seen.has_length && n != r.body)) return 400;
        seen.has_length = true;
        r.body = n;
      }
      break;
    case 17:
      if (same_word(name, "transfer-encoding")) {
        seen.has_coding = true;
        seen.chunked = same_word(value, "chunked");
      } else if (same_word(name, "if-modified-since")) {
        r.if_modified_since = value;
      }
      break;
    default: break;
  }
  return 200;
}

inline int judge(request& r, const fields& seen, const limits& most) {
  if (seen.hosts > 1 || (!r.version_1_0 && seen.hosts == 0)) return 400;
  if (seen.has_coding) return seen.has_length ? 400 : seen.chunked ? 411 : 501;
  if (r.body > most.body) return 413;
  r.keep_alive = !seen.close && (seen.keep_alive || !r.version_1_0);
  return 200;
}

}  // namespace detail

// Looks whether a whole head has arrived, and takes it apart.
inline outcome parse(std::string_view arrived, const limits& most, request& r) {
  std::size_t begin = 0;
  while (arrived.substr(begin).starts_with("\r\n") && begin < 8) begin += 2;  // RFC 9112 §2.2
  const std::string_view head = arrived.substr(begin);
  const std::size_t line_end = head.substr(0, most.request_line + 1).find('\n');
  if (line_end == head.npos) return {head.size() > most.request_line ? 414 : 0};
  if (line_end == 0 || head[line_end - 1] != '\r') return {400};
  const std::size_t end = head.substr(line_end - 1, most.head - line_end + 1).find("\r\n\r\n");
  if (end == head.npos) return {head.size() >= most.head ? 431 : 0};
  const std::size_t size = line_end - 1 + end + 4;

  r = {};
  int status = detail::parse_request_line(head.substr(0, line_end - 1), r);
  detail::fields seen;
  std::string_view rest = head.substr(line_end + 1, size - line_end - 3);  // without the empty line
  while (status == 200 && !rest.empty()) {
    const std::size_t n = rest.find("\r\n");
    status = detail::parse_field(rest.substr(0, n), r, seen);
    rest.remove_prefix(n + 2);
  }
  if (status == 200) status = detail::judge(r, seen, most);
  return {status, begin + size};
}

inline std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 416: return "Range Not Satisfiable";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Internal Server Error";
  }
}

inline constexpr char kDays[] = "SunMonTueWedThuFriSat";
inline constexpr char kMonths[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
inline void append_date(std::string& to, std::time_t t) {
  std::tm tm{};
  gmtime_r(&t, &tm);
  const auto two = [&to](int n) {
    to += static_cast<char>('0' + n / 10);
    to += static_cast<char>('0' + n % 10);
  };
  to.append(kDays + 3 * tm.tm_wday, 3).append(", ");
  two(tm.tm_mday);
  to.append(" ").append(kMonths + 3 * tm.tm_mon, 3).append(" ");
  two((tm.tm_year + 1900) / 100);
  two((tm.tm_year + 1900) % 100);
  to += ' ';
  two(tm.tm_hour);
  to += ':';
  two(tm.tm_min);
  to += ':';
  two(tm.tm_sec);
  to += " GMT";
}

inline void append_number(std::string& to, std::uint64_t n) {
  char digits[20];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
}

// The moment as a head's Date field wants it. It is the same for a second.
class date_line {
 public:
  std::string_view now() {
    const std::time_t t = std::time(nullptr);
    if (t != at_) {
      std::string text;
      append_date(text, at_ = t);
      std::memcpy(text_, text.data(), sizeof text_);
    }
    return {text_, sizeof text_};
  }

 private:
  std::time_t at_ = -1;
  char text_[29] = {};
};

}  // namespace http

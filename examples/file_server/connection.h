// One client: request after request, each limited in size and in time.
//
// Answers are collected for as long as further requests have arrived already (pipelining), and leave when there
// is none, when there are many, or when a file follows. An idle connection holds no memory but its goroutine's
// first page: the buffer for a small request is on the stack, a larger one is given back.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include <weft/net.h>
#include <weft/time.h>

#include "files.h"
#include "http.h"

namespace http {

struct options {
  limits most;
  std::chrono::milliseconds idle_timeout{60'000};  // between requests
  std::chrono::milliseconds read_timeout{10'000};  // for a request, from its first byte to its last
  std::chrono::milliseconds write_timeout{30'000};  // for every kWriteUnit of an answer
};

struct shared_state {
  options settings;
  site files;
  std::atomic<bool> draining{false};  // this answer is the last one
  std::atomic<std::uint64_t> requests{0};
};

class connection {
 public:
  connection(weft::net::tcp_conn& c, shared_state& s)
      : conn_(c), shared_(s), settings_(s.settings) {}

  void serve() {
    request r;
    for (;;) {
      const int status = read_request(r);
      if (status == 0) break;
      shared_.requests.fetch_add(1, std::memory_order_relaxed);
      if (status != 200) {
        refuse(status);
        return;
      }
      old_client_ = r.version_1_0;
      // The answer is there before the body: who still waits for leave to send it may go.
      const bool waits_for_leave = r.expects_continue && r.body > 0 && arrived().empty();
      keep_alive_ =
          r.keep_alive && !waits_for_leave && !shared_.draining.load(std::memory_order_relaxed);
      answer(r);
      if (failed_ || (!waits_for_leave && !skip_body(r)) || !keep_alive_) break;
    }
    flush();
    if (!failed_) say_goodbye();
  }

 private:
  static constexpr std::size_t kSmall = 1024;
  static constexpr std::size_t kFlushAt = 16 * 1024;
  static constexpr std::size_t kWriteUnit = 256 * 1024;

  std::string_view arrived() const { return {data_ + begin_, end_ - begin_}; }

  // 200 and a request that stays valid until the next call; 0: there is no other; otherwise why it is refused.
  int read_request(request& r) {
    weft::clock::time_point until{};
    bool has_begun = false;
    for (;;) {
      const outcome o = parse(arrived(), settings_.most, r);
      if (o.status != 0) {
        begin_ += o.size;
        return o.status;
      }
      flush();  // nothing else to do
      if (failed_) return 0;
      const bool idle = begin_ == end_;
      make_room();
      if (idle) {
        until = weft::clock::now() + settings_.idle_timeout;
      } else if (!has_begun) {
        until = weft::clock::now() + settings_.read_timeout;
        has_begun = true;
      }
      if (!fill(until)) return timed_out_ && !idle ? 408 : 0;
    }
  }

  // There is room for more behind what has arrived; without anything, no more memory than that of the stack.
  void make_room() {
    if (begin_ == end_) {
      begin_ = end_ = 0;
      data_ = small_;
      room_ = kSmall;
      large_.reset();
      if (out_.capacity() > kSmall) std::string().swap(out_);
    } else if (end_ == room_ && begin_ > 0) {
      std::memmove(data_, data_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else if (end_ == room_) {
      // parse() has refused what is larger than the limit.
      const std::size_t more = std::min(room_ * 4, settings_.most.head + kSmall);
      std::unique_ptr<char[]> fresh(new char[more]);
      std::memcpy(fresh.get(), data_, end_);
      large_ = std::move(fresh);
      data_ = large_.get();
      room_ = more;
    }
  }

  bool fill(weft::clock::time_point until) {
    std::error_code ec;
    conn_.set_read_deadline(until, ec);
    const std::size_t n = ec ? 0 : conn_.read_some({data_ + end_, room_ - end_}, ec);
    end_ += n;
    timed_out_ = ec == std::errc::timed_out;
    return n > 0;
  }

  // What a request carries is of no interest, but the next one comes behind it.
  bool skip_body(const request& r) {
    std::uint64_t left = r.body;
    const auto until = weft::clock::now() + settings_.read_timeout;
    while (left > 0) {
      if (begin_ == end_) {
        flush();
        make_room();
        if (failed_ || !fill(until)) return false;
      }
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(left, end_ - begin_));
      begin_ += n;
      left -= n;
    }
    return true;
  }

  void flush() {
    if (out_.empty() || failed_) return;
    std::error_code ec;
    conn_.set_write_deadline(weft::clock::now() + settings_.write_timeout, ec);
    if (!ec) conn_.write_all(out_, ec);
    failed_ = static_cast<bool>(ec);
    out_.clear();
  }

  void begin_head(int status) {
    out_ += "HTTP/1.1 ";
    append_number(out_, static_cast<std::uint64_t>(status));
    out_.append(" ").append(reason(status)).append("\r\nDate: ").append(date_.now());
    if (!keep_alive_) {
      out_ += "\r\nConnection: close";
    } else if (old_client_) {
      out_ += "\r\nConnection: keep-alive";
    }
  }
  void add_field(std::string_view name, std::string_view value) {
    out_.append("\r\n").append(name).append(": ").append(value);
  }
  void end_head(std::uint64_t length) {
    out_ += "\r\nContent-Length: ";
    append_number(out_, length);
    out_ += "\r\n\r\n";
  }

  // An answer whose body is its status in words.
  void say(int status, bool head_only, std::string_view name = {}, std::string_view value = {}) {
    const std::string_view text = reason(status);
    begin_head(status);
    if (!name.empty()) add_field(name, value);
    add_field("Content-Type", "text/plain; charset=utf-8");
    end_head(text.size() + 1);
    if (!head_only) out_.append(text).append("\n");
    if (out_.size() >= kFlushAt) flush();
  }

  void refuse(int status) {
    keep_alive_ = false;
    say(status, false);
    flush();
    if (!failed_) say_goodbye();
  }

  void answer(const request& r) {
    const bool head_only = r.method == "HEAD";
    if (!head_only && r.method != "GET") return say(405, false, "Allow", "GET, HEAD");
    const file f = shared_.files.open(r.target);
    if (f.status == 301) {
      const std::size_t query = r.target.find('?');
      std::string to(r.target.substr(0, query));
      to += '/';
      if (query != r.target.npos) to += r.target.substr(query);
      // "//host/" would lead to another machine.
      return to.starts_with("//") ? say(404, head_only) : say(301, head_only, "Location", to);
    }
    if (f.status != 200) return say(f.status, head_only);
    std::string modified;
    append_date(modified, f.modified);
    send(r, f, modified, head_only);
  }

  void send(const request& r, const file& f, const std::string& modified, bool head_only) {
    if (r.if_modified_since == modified && r.range.empty()) {
      begin_head(304);
      add_field("Last-Modified", modified);
      out_ += "\r\n\r\n";
      return;
    }
    std::uint64_t first = 0, count = f.size;
    // A part of what the client has begun to read is none of a file that has changed since.
    const bool wants_part = !r.range.empty() && (r.if_range.empty() || r.if_range == modified);
    const int status = wants_part && !head_only ? part_of(r.range, f.size, first, count) : 200;
    if (status == 416)
      return say(416, head_only, "Content-Range", "bytes */" + std::to_string(f.size));
    begin_head(status);
    add_field("Content-Type", f.type);
    add_field("Last-Modified", modified);
    add_field("Accept-Ranges", "bytes");
    if (status == 206) {
      add_field("Content-Range", "bytes " + std::to_string(first) + "-" +
                                     std::to_string(first + count - 1) + "/" +
                                     std::to_string(f.size));
    }
    end_head(count);
    if (!head_only && count > 0) send_file(f.fd.get(), first, count);
    if (out_.size() >= kFlushAt) flush();
  }

  void send_file(int fd, std::uint64_t first, std::uint64_t count) {
    flush();
    while (!failed_ && count > 0) {
      std::error_code ec;
      const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(count, kWriteUnit));
      conn_.set_write_deadline(weft::clock::now() + settings_.write_timeout, ec);
      const std::size_t n =
          ec ? 0 : conn_.send_file(fd, static_cast<std::int64_t>(first), want, ec);
      first += n;
      count -= n;
      failed_ =
          ec || n == 0;  // 0: the file has become shorter, which only a broken connection can tell
    }
  }

  // A close with unread input resets the connection, and the client may lose our answer: so it is told that no
  // more will come, and has a moment to read and to close.
  void say_goodbye() {
    constexpr std::size_t kMostIgnored = 256 * 1024;
    std::error_code ec;
    conn_.shutdown_write(ec);
    const auto until =
        weft::clock::now() + std::min(settings_.read_timeout, std::chrono::milliseconds(1000));
    for (std::size_t ignored = 0; !ec && ignored < kMostIgnored;) {
      begin_ = end_ = 0;
      if (!fill(until)) break;
      ignored += end_;
    }
  }

  weft::net::tcp_conn& conn_;
  shared_state& shared_;
  const options& settings_;
  char* data_ = small_;
  std::size_t room_ = kSmall, begin_ = 0, end_ = 0;
  std::unique_ptr<char[]> large_;
  std::string out_;
  date_line date_;
  bool keep_alive_ = true;
  bool failed_ = false;      // nothing can be written any more
  bool timed_out_ = false;   // the last read
  bool old_client_ = false;  // HTTP/1.0: must be told that it may go on
  char small_[kSmall];
};

}  // namespace http

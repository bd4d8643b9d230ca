// TLS over a weft connection, with OpenSSL and a BIO of our own.
//
// OpenSSL keeps its queue of errors per thread, and a goroutine that waits may go on with another thread. So nothing
// waits inside OpenSSL: the BIO only moves bytes from and to two buffers and says "retry" when it has none, and
// drive() fills and empties them between the calls.
#pragma once

#include <memory>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdexcept>
#include <string>
#include <string_view>

#include <weft/net.h>

namespace tls {

class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What OpenSSL has to say, on the thread of the call that failed.
[[noreturn]] inline void fail(const std::string& operation) {
  const unsigned long code = ERR_get_error();
  const char* reason = ERR_reason_error_string(code);
  throw error(operation + ": " + (reason != nullptr ? reason : "failed"));
}

struct deleter {
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
  void operator()(BIO_METHOD* p) const { BIO_meth_free(p); }
};
using shared_settings = std::unique_ptr<SSL_CTX, deleter>;

class stream {
 public:
  // The context may be shared by many. A client says whom it expects to talk to.
  static stream server(weft::net::tcp_conn c, SSL_CTX* context) {
    stream s(std::move(c), context);
    SSL_set_accept_state(s.ssl_.get());
    s.drive("TLS handshake", [&s] { return SSL_do_handshake(s.ssl_.get()); });
    return s;
  }
  static stream client(weft::net::tcp_conn c, SSL_CTX* context, const char* host) {
    stream s(std::move(c), context);
    SSL_set_connect_state(s.ssl_.get());
    SSL_set_verify(s.ssl_.get(), SSL_VERIFY_PEER, nullptr);
    if (SSL_set1_host(s.ssl_.get(), host) != 1 ||
        SSL_set_tlsext_host_name(s.ssl_.get(), host) != 1) {
      fail("TLS host name");
    }
    s.drive("TLS handshake", [&s] { return SSL_do_handshake(s.ssl_.get()); });
    return s;
  }

  // 0: the other side has said that no more will come. A connection that just ends is an error.
  std::size_t read_some(weft::mutable_buffer b) {
    const int n =
        drive("TLS read", [&] { return SSL_read(ssl_.get(), b.data(), clamp(b.size())); });
    return static_cast<std::size_t>(n);
  }

  void write_all(weft::const_buffer b) {
    while (b.size() > 0) {
      const int n =
          drive("TLS write", [&] { return SSL_write(ssl_.get(), b.data(), clamp(b.size())); });
      if (n == 0) throw error("TLS write: the other side has ended the session");
      b = b + static_cast<std::size_t>(n);
    }
  }

  // No more will come from here.
  void shutdown() {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    flush();
  }

  std::string_view version() const { return SSL_get_version(ssl_.get()); }
  weft::net::tcp_conn& connection() { return buffers_->conn; }

 private:
  // Where the BIO finds its bytes; it keeps its address when the stream moves.
  struct buffers {
    explicit buffers(weft::net::tcp_conn c) : conn(std::move(c)) {}
    weft::net::tcp_conn conn;
    std::string in, out;
    std::size_t taken = 0;  // of in
    bool ended = false;
  };

  stream(weft::net::tcp_conn c, SSL_CTX* context)
      : buffers_(std::make_unique<buffers>(std::move(c))), ssl_(SSL_new(context)) {
    BIO* bio = BIO_new(method());
    if (ssl_ == nullptr || bio == nullptr) fail("TLS");
    BIO_set_data(bio, buffers_.get());
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);  // owns it
  }

  static int clamp(std::size_t n) { return n > 1 << 30 ? 1 << 30 : static_cast<int>(n); }

  static int read(BIO* bio, char* to, int size) {
    auto* b = static_cast<buffers*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const std::size_t n = b->in.copy(to, static_cast<std::size_t>(size), b->taken);
    b->taken += n;
    if (n > 0 || b->ended) return static_cast<int>(n);
    BIO_set_retry_read(bio);
    return -1;
  }
  static int write(BIO* bio, const char* from, int size) {
    BIO_clear_retry_flags(bio);
    static_cast<buffers*>(BIO_get_data(bio))->out.append(from, static_cast<std::size_t>(size));
    return size;
  }
  static long control(BIO* bio, int command, long, void*) {
    switch (command) {
      case BIO_CTRL_FLUSH: return 1;
      case BIO_CTRL_EOF: return static_cast<buffers*>(BIO_get_data(bio))->ended;
      default: return 0;
    }
  }
  static BIO_METHOD* method() {
    static const std::unique_ptr<BIO_METHOD, deleter> the_one = [] {
      std::unique_ptr<BIO_METHOD, deleter> m(
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft connection"));
      if (m == nullptr) fail("BIO");
      BIO_meth_set_read(m.get(), read);
      BIO_meth_set_write(m.get(), write);
      BIO_meth_set_ctrl(m.get(), control);
      return m;
    }();
    return the_one.get();
  }

  void flush() {
    if (buffers_->out.empty()) return;
    buffers_->conn.write_all(buffers_->out);
    buffers_->out.clear();
  }

  void fill() {
    constexpr std::size_t kRecord = 16 * 1024 + 512;
    buffers& b = *buffers_;
    b.taken = 0;
    b.in.resize(kRecord);
    const std::size_t n = b.conn.read_some(b.in);
    b.in.resize(n);
    b.ended = n == 0;
  }

  // Repeats a call of OpenSSL until it does not want bytes any more. 0: the session has ended.
  template <class F>
  int drive(const char* operation, F call) {
    for (;;) {
      ERR_clear_error();
      const int result = call();
      // Asked here, on the same thread, before anything below may wait.
      const int what = SSL_get_error(ssl_.get(), result);
      std::string trouble;
      if (what == SSL_ERROR_SSL || what == SSL_ERROR_SYSCALL) {
        try {
          fail(operation);
        } catch (const error& e) {
          trouble = e.what();
        }
      }
      flush();  // an alert, perhaps
      switch (what) {
        case SSL_ERROR_NONE: return result;
        case SSL_ERROR_ZERO_RETURN: return 0;
        case SSL_ERROR_WANT_WRITE: break;
        case SSL_ERROR_WANT_READ: fill(); break;
        default: throw error(trouble);
      }
    }
  }

  std::unique_ptr<buffers> buffers_;
  std::unique_ptr<SSL, deleter> ssl_;
};

}  // namespace tls

// The rest of a list of buffers.
#pragma once

#include <cstddef>
#include <sys/uio.h>

namespace weft::rt {

constexpr std::size_t kMostParts = 1024;  // IOV_MAX

// n bytes further on; empty ones are skipped.
inline void advance(iovec** parts, std::size_t* count, std::size_t n) {
  while (*count > 0 && n >= (*parts)->iov_len) {
    n -= (*parts)->iov_len;
    ++*parts;
    --*count;
  }
  if (n > 0) {
    (*parts)->iov_base = static_cast<char*>((*parts)->iov_base) + n;
    (*parts)->iov_len -= n;
  }
}

}  // namespace weft::rt

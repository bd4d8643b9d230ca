// What Go makes a panic.
#pragma once

#include <stdexcept>

#include <weft/detail/export.h>

namespace weft {

/// The base of exceptions that stand for a misuse of weft, such as a send on a closed channel.
/// what() is Go's text. They may be caught; one that leaves a goroutine ends the process, like any
/// other exception:
///
///     panic: send on closed channel
///
///     goroutine 7 [running]:
///     ...
class WEFT_EXPORT panic_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  panic_error(const panic_error&) = default;
  panic_error& operator=(const panic_error&) = default;
  ~panic_error() override;
};

}  // namespace weft

// Ends the process with a message if a test hangs, with a dump of all goroutines where the library's
// internals can be reached.
//
// A signal and not a thread: a plain thread would keep the runtime from ever reporting a deadlock,
// which says more than "it hangs".
#pragma once

#include <string>

namespace weft::test {

class watchdog {
 public:
  // Barks unless destroyed within WEFT_TEST_PATIENCE seconds (or so many by default, and more under slow tools).
  explicit watchdog(const std::string& what, unsigned seconds = 60);
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
};

}  // namespace weft::test

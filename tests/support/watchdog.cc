// See watchdog.h.
#include "support/watchdog.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <unistd.h>

#include "support/patience.h"
#ifdef WEFT_TEST_INTERNALS
#include "base/fatal.h"
#endif

namespace weft::test {

namespace {

char name[256];

void say(const char* text) {
  // Nothing else can be done about an error here.
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    return;
  }
}

void bark(int) {
  ::signal(SIGALRM, SIG_DFL);
  alarm(20);  // if that hangs, too
  say("\nwatchdog: hangs: ");
  say(name);
  say("\n");
#ifdef WEFT_TEST_INTERNALS
  rt::fatal("test hangs");
#else
  std::abort();
#endif
}

unsigned patience(unsigned seconds) {
  if (const char* text = std::getenv("WEFT_TEST_PATIENCE")) {
    return static_cast<unsigned>(std::max(1, std::atoi(text)));
  }
  return slowness() > 1 ? 5 * seconds : seconds;
}

}  // namespace

watchdog::watchdog(const std::string& what, unsigned seconds) {
  what.copy(name, sizeof(name) - 1);
  name[std::min(what.size(), sizeof(name) - 1)] = '\0';
  struct sigaction action {};
  action.sa_handler = bark;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  alarm(patience(seconds));
}

watchdog::~watchdog() { alarm(0); }

}  // namespace weft::test

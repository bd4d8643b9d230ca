// Signals of the process into channels, as Go's os/signal.
#pragma once

#include <initializer_list>
#include <system_error>

#include <weft/chan.h>
#include <weft/detail/export.h>

namespace weft::signal {

/// Each of these signals is sent to the channel when it arrives, whatever the program would have done
/// otherwise. Nobody waits for a receiver: a channel without room misses it, so give it room for as many as
/// matter. One channel may have several calls, one signal several channels. No signals: all that can be
/// caught, but for those of faults.
///
/// It arrives though all threads of the program block it; once nobody wants it any more it is blocked again. But what is
/// sent to a single thread, as by raise(), waits for that thread.
///
///     weft::chan<int> quit(1);
///     weft::signal::notify(quit, {SIGINT, SIGTERM});
///     quit.recv();
///
/// SIGKILL and SIGSTOP cannot be caught, SIGSEGV, SIGBUS, SIGFPE and SIGILL are weft's or the program's fault, and
/// SIGURG (or WEFTDEBUG=preemptsignal) is used by weft itself: std::system_error (invalid_argument).
WEFT_EXPORT void notify(const chan<int>& c, std::initializer_list<int> signals = {});
WEFT_EXPORT void notify(const chan<int>& c, std::initializer_list<int> signals,
                        std::error_code& ec);
WEFT_EXPORT void notify(const chan<int>& c, std::error_code& ec);

/// Nothing more is sent to the channel once this has returned; what arrived before is in it. Signals that nobody wants
/// any more do again what they did before, and are blocked where they were.
WEFT_EXPORT void stop(const chan<int>& c);
WEFT_EXPORT void stop(const chan<int>& c, std::error_code& ec);

/// The signals are ignored, and sent to nobody. None: all. Those that notify() refuses are left alone, as Go does.
WEFT_EXPORT void ignore(std::initializer_list<int> signals = {});
WEFT_EXPORT void ignore(std::initializer_list<int> signals, std::error_code& ec);
WEFT_EXPORT void ignore(std::error_code& ec);

/// The signals do what they did before weft was asked, and are sent to nobody. None: all.
WEFT_EXPORT void reset(std::initializer_list<int> signals = {});
WEFT_EXPORT void reset(std::initializer_list<int> signals, std::error_code& ec);
WEFT_EXPORT void reset(std::error_code& ec);

}  // namespace weft::signal

// See debug/capture.h.
#include "debug/capture.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string_view>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/at_start.h"
#include "base/atomic.h"
#include "base/readable.h"
#include "debug/capture_slot.h"
#include "fiber/sanitizer.h"
#include "os/clock.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kPatience = 1'000'000'000;         // ns: it may have to wait for a processor
constexpr std::int64_t kLittlePatience = kPatience / 10;  // to learn the rest

constinit capture_slot<frame> the_slot;
WEFT_SET_AT_START constinit atomic<capture_handler*> answering{nullptr};

// The program may have taken the signal since: it would die of it, or hear of one that nobody has sent.
bool still_answers() noexcept {
  capture_handler* ours = answering.load(WEFT_ORDER(CP0, relaxed));  // order: CP0 a lone word
  struct sigaction now {};
  return ours != nullptr && ::sigaction(SIGQUIT, nullptr, &now) == 0 &&
         (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ours;
}

// The words of "nr arg… sp pc": the last two.
bool parse_sp_pc(std::string_view text, std::uintptr_t* sp, std::uintptr_t* pc) {
  std::uintptr_t words[2] = {0, 0};
  int count = 0;
  std::size_t at = 0;
  while ((at = text.find("0x", at)) != text.npos) {
    std::uintptr_t value = 0;
    for (at += 2; at < text.size(); ++at) {
      const char c = text[at];
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value << 4 | static_cast<std::uintptr_t>(digit);
    }
    words[0] = words[1];
    words[1] = value;
    ++count;
  }
  *sp = words[0];
  *pc = words[1];
  return count >= 2 && *sp != 0 && *pc != 0;
}

bool walks_to_the_end(frame f) {
  constexpr int kMost = 1 << 16;
  frame_step last = frame_step::ok;
  for (int steps = 0; steps < kMost && last == frame_step::ok; ++steps) last = step(f);
  return last == frame_step::end;
}

std::size_t read_syscall_file(int tid, char* buffer, std::size_t size) {
  char path[64] = "/proc/self/task/";
  std::size_t used = std::strlen(path);
  char digits[16];
  int n = 0;
  for (int rest = tid; rest > 0; rest /= 10) digits[n++] = static_cast<char>('0' + rest % 10);
  while (n > 0) path[used++] = digits[--n];
  std::memcpy(path + used, "/syscall", sizeof "/syscall");
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = ::read(fd, buffer, size);
  ::close(fd);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace

frame interrupted_frame(const ucontext_t& at) noexcept {
  frame f;
  f.exact = true;
#if defined(__x86_64__)
  constexpr int kInDwarfOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                   REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15};
  int n = 0;
  for (const int reg : kInDwarfOrder) {
    f.set(n++, static_cast<std::uintptr_t>(at.uc_mcontext.gregs[reg]));
  }
  f.pc = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  for (int n = 0; n < kStackRegister; ++n) {
    f.set(n, at.uc_mcontext.regs[n]);
  }
  f.set(kStackRegister, at.uc_mcontext.sp);
  f.pc = at.uc_mcontext.pc;
#endif
  return f;
}

WEFT_RUNS_AT_START void capture_by(capture_handler* handler) noexcept {
  answering.store(handler, WEFT_ORDER(CP0, relaxed));  // order: CP0 a lone word
}

// Not instrumented: errno is the thread's, whichever goroutine is there.
WEFT_NO_TSAN captured_thread::captured_thread(int tid) noexcept {
  const int saved_errno = errno;
  if (tid > 0 && ask_kernel(tid)) {
    known_ = true;
    const frame by_kernel = innermost_;
    if (!walks_to_the_end(by_kernel) && !ask_thread(tid, kLittlePatience)) innermost_ = by_kernel;
  } else {
    known_ = tid > 0 && ask_thread(tid, kPatience);
  }
  errno = saved_errno;
}

WEFT_NO_TSAN captured_thread::captured_thread(int tid, const void* interrupted) noexcept {
  const int saved_errno = errno;
  if (interrupted != nullptr &&
      readable(reinterpret_cast<std::uintptr_t>(interrupted), sizeof(ucontext_t))) {
    innermost_ = interrupted_frame(*static_cast<const ucontext_t*>(interrupted));
    known_ = true;
  } else {
    known_ = tid > 0 && ask_kernel(tid);  // it would not answer
  }
  errno = saved_errno;
}

captured_thread::~captured_thread() {
  if (holds_slot_) the_slot.give_back();
}

bool captured_thread::ask_kernel(int tid) noexcept {
  char text[256];
  const std::size_t size = read_syscall_file(tid, text, sizeof text);
  std::uintptr_t sp = 0;
  if (size == 0 || !parse_sp_pc({text, size}, &sp, &innermost_.pc)) return false;
  innermost_.set(kStackRegister, sp);
  innermost_.exact = true;
  return true;
}

bool captured_thread::ask_thread(int tid, std::int64_t patience) noexcept {
  if (!still_answers()) return false;
  if (!the_slot.take()) return false;
  holds_slot_ = true;
  the_slot.ask(tid);
  siginfo_t info{};
  info.si_signo = SIGQUIT;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = &the_slot;
  const bool sent = ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), tid, SIGQUIT, &info) == 0;
  const std::int64_t until = nanotime() + (sent ? patience : 0);
  while (!the_slot.answered()) {
    if (nanotime() >= until && the_slot.take_back(tid)) {
      the_slot.give_back();
      holds_slot_ = false;
      return false;
    }
    const timespec pause{0, 50'000};  // it needs a processor, too
    ::nanosleep(&pause, nullptr);
  }
  tsan_ignore_begin();  // below
  innermost_ = the_slot.registers().get();
  tsan_ignore_end();
  return true;
}

// Not instrumented: the handler may have interrupted anything. So TSan sees no order between it and who asked. It need not:
// goroutines are not ordered by that. But memcpy, by which registers may be copied, it sees all the same.
WEFT_NO_TSAN bool answer_capture(const siginfo_t* info, const ucontext_t& at) noexcept {
  if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &the_slot) return false;
  const int saved_errno = errno;
  if (the_slot.begin_answer(static_cast<int>(::syscall(SYS_gettid)))) {
    tsan_ignore_begin();
    the_slot.registers().set(interrupted_frame(at));
    tsan_ignore_end();
    the_slot.end_answer();
    while (the_slot.must_wait()) ::sched_yield();
  }
  errno = saved_errno;
  return true;
}

}  // namespace weft::rt

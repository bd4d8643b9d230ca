// See process.h. Directories are read with getdents64 by hand: opendir allocates, and this runs when
// a deadlock is suspected, when a frozen thread may hold malloc's lock.
#include "os/process.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string_view>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "base/atomic.h"  // WEFT_TSAN

namespace weft::rt {
namespace {

/// The kernel's struct linux_dirent64, which has no header in user space.
struct directory_entry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

/// Reads the start of /proc/self/task/TID/FILE; returns the number of bytes, 0 if the thread is gone.
std::size_t read_task_file(int task_directory, const char* tid, const char* file, char* buffer,
                           std::size_t size) noexcept {
  char path[48];
  const std::size_t tid_length = std::strlen(tid);
  const std::size_t file_length = std::strlen(file);
  if (tid_length + 1 + file_length + 1 > sizeof path) return 0;
  std::memcpy(path, tid, tid_length);
  path[tid_length] = '/';
  std::memcpy(path + tid_length + 1, file, file_length + 1);
  const int fd = openat(task_directory, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, buffer, size);
  close(fd);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

/// By the kernel's own mark, PF_IO_WORKER in the ninth field of stat: any thread may be called iou-*.
bool is_io_uring_worker(int task_directory, const char* tid) noexcept {
  constexpr unsigned long kIoWorker = 0x10;
  char text[256];
  const std::size_t n = read_task_file(task_directory, tid, "stat", text, sizeof text - 1);
  text[n] = '\0';
  const char* at = std::strrchr(text, ')');  // the name may contain anything, blanks too
  for (int field = 2; at != nullptr && field < 9; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr && (std::strtoul(at + 1, nullptr, 10) & kIoWorker) != 0;
}

/// qemu-user has a thread of its own, which looks like any other in /proc/self/task. It gives itself
/// away by /proc/self/stat, which it forges: zero threads, where the kernel never says less than one.
bool emulated() noexcept {
  char text[512];
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  constexpr int kFieldsToThreadCount = 18;  // after the name, which may contain blanks
  const char* at = std::strrchr(text, ')');
  for (int i = 0; at != nullptr && i < kFieldsToThreadCount; ++i) at = std::strchr(at + 1, ' ');
  return at != nullptr && at[1] == '0';
}

/// Threads of the tools that this process runs under.
int tool_threads() noexcept { return WEFT_TSAN + (emulated() ? 1 : 0); }

bool counts(int task_directory, const char* tid) noexcept {
  if (tid[0] < '0' || tid[0] > '9') return false;  // "." and ".."
  return !is_io_uring_worker(task_directory, tid);
}

}  // namespace

int gettid() noexcept { return static_cast<int>(syscall(SYS_gettid)); }

int count_tasks() noexcept {
  const int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -1;
  alignas(directory_entry) char buffer[4096];
  int tasks = 0;
  long bytes;
  while ((bytes = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const directory_entry*>(buffer + at);
      if (counts(directory, entry->name)) ++tasks;
      at += entry->length;
    }
  }
  close(directory);
  if (bytes < 0 || tasks == 0) return -1;
  const int tools = tool_threads();
  return tasks > tools ? tasks - tools : 1;
}

namespace {

// The start of a thread's file; ends with a zero.
template <std::size_t N>
void read_file_of_task(int tid, const char* file, char (&text)[N]) noexcept {
  text[0] = '\0';
  char path[sizeof "/proc/self/task/" + 10];
  char* at = path + sizeof path;
  *--at = '\0';
  for (int rest = tid; rest > 0; rest /= 10) *--at = static_cast<char>('0' + rest % 10);
  constexpr std::string_view kTasks = "/proc/self/task/";
  at -= kTasks.size();
  std::memcpy(at, kTasks.data(), kTasks.size());
  text[read_task_file(AT_FDCWD, at, file, text, N - 1)] = '\0';
}

}  // namespace

char task_state(int tid) noexcept {
  char text[128];
  read_file_of_task(tid, "stat", text);
  // "TID (name) S …", and the name may contain anything but ends with the last parenthesis.
  const char* after_name = std::strrchr(text, ')');
  return after_name != nullptr && after_name[1] == ' ' ? after_name[2] : '\0';
}

bool task_waits_for_lock(int tid) noexcept {
  char text[32];
  read_file_of_task(tid, "syscall", text);
  if (text[0] == '\0') return true;
  char* end = text;
  switch (std::strtol(text, &end, 10)) {
    case SYS_futex:
    case SYS_flock:
    case SYS_fcntl:  // which of its commands is not known, but the others do not sleep
    case SYS_semop:
    case SYS_semtimedop: return end != text;  // "running" is none
    default: return false;
  }
}

bool task_blocks(int tid, int signal) noexcept {
  char text[4096];
  read_file_of_task(tid, "status", text);
  const char* at = std::strstr(text, "\nSigBlk:");
  return at != nullptr &&
         (std::strtoull(at + sizeof "\nSigBlk:" - 1, nullptr, 16) >> (signal - 1) & 1) != 0;
}

long long process_age() noexcept {
  char text[512];
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  const char* at = std::strrchr(text, ')');  // the name may contain anything, blanks too
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  timespec now{};
  if (at == nullptr || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const long long ticks = std::strtoll(at + 1, nullptr, 10);
  const long long started = ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  const long long age = now.tv_sec * 1'000'000'000LL + now.tv_nsec - started;
  return age > 0 ? age : 0;
}

long long task_cpu_time(int tid) noexcept {
  // The kernel's encoding of "CPU clock of that thread": there is no function that takes a tid.
  constexpr unsigned kPerThreadSched = 6;
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | kPerThreadSched);
  timespec ts;
  if (clock_gettime(clock, &ts) != 0) return -1;
  return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

bool task_runs(int tid) noexcept {
  const long long before = task_cpu_time(tid);
  return before >= 0 && task_cpu_time(tid) > before;
}

namespace {

struct frame_search {
  void* functions[2];
  int frames_left = 8;  // ours, the destructor's caller, the C library's two, and some to spare
  bool found = false;
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* memory) {
  auto* search = static_cast<frame_search*>(memory);
  // One less: the return address of a call that never returns lies behind its function.
  const std::uintptr_t inside = _Unwind_GetIP(frame) - 1;
  void* const function = _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(inside));
  search->found =
      function != nullptr && (function == search->functions[0] || function == search->functions[1]);
  return search->found || --search->frames_left == 0 ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

}  // namespace

namespace {

// In a program that is not position-independent and uses exit as a value, &exit is a stub of the program's
// own: then the C library's is the next one. Constant after find_exit().
constinit void* exit_in_library = nullptr;

}  // namespace

void find_exit() noexcept { exit_in_library = dlsym(RTLD_NEXT, "exit"); }

bool called_by_exit() noexcept {
  frame_search search{{reinterpret_cast<void*>(&::exit), exit_in_library}};
  _Unwind_Backtrace(look_at_frame, &search);
  return search.found;
}

}  // namespace weft::rt

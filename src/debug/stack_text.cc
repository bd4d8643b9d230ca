// runtime::stack(): stacks as a string, while the program goes on.
//
// All goroutines are looked at while the world is stopped, and somebody may have been stopped inside
// malloc: so the text is collected in pages from the kernel, and copied when the world runs again.
// Go: runtime/mprof.go Stack [DG-6]
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <sys/mman.h>

#include <weft/runtime.h>

#include "debug/dump.h"
#include "debug/traceback.h"
#include "debug/waits.h"
#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::rt {

namespace {

// Address space for the text of a hundred goroutines, or of 64 groups; what does not fit is cut.
constexpr std::size_t kRoom = std::size_t{64} << 20;

class text_pages {
 public:
  text_pages() {
    void* memory = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    dump_ = ::new (memory_) goroutine_dump;
  }
  text_pages(const text_pages&) = delete;
  text_pages& operator=(const text_pages&) = delete;
  ~text_pages() { ::munmap(memory_, kRoom); }

  goroutine_dump& dump() { return *dump_; }
  static void append(void* self, const char* data, std::size_t size) {
    auto* pages = static_cast<text_pages*>(self);
    const std::size_t n = std::min(size, kRoom - sizeof(goroutine_dump) - pages->used_);
    std::memcpy(pages->text() + pages->used_, data, n);
    pages->used_ += n;
  }
  std::string string() { return {text(), used_}; }

 private:
  char* text() { return reinterpret_cast<char*>(memory_ + sizeof(goroutine_dump)); }

  std::byte* memory_;
  goroutine_dump* dump_;
  std::size_t used_ = 0;
};

void print_this(goroutine_dump& dump, const frame& innermost) {
  if (const G* gp = current_goroutine()) {
    dump.print_running(*gp, innermost);
  } else {
    dump.print_thread(nullptr, "plain thread", innermost);
  }
}

}  // namespace

}  // namespace weft::rt

namespace weft::runtime {

std::string stack(bool all) {
  rt::ensure_started();
  rt::text_pages pages;
  const rt::frame innermost = rt::this_frame();
  if (all) rt::stop_world();
  {
    rt::printer out(rt::text_pages::append, &pages);
    pages.dump().begin(out, rt::traceback_level::detail::user);
    rt::print_this(pages.dump(), innermost);
    if (all) {
      pages.dump().print_others();
      rt::print_partial_deadlocks(out);
    }
  }
  if (all) rt::start_world();
  return pages.string();
}

}  // namespace weft::runtime

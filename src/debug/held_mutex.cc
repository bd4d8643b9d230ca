// A goroutine that parks while it holds a std::mutex: found in debug mode (WEFTDEBUG=lockcheck=1).
//
// The goroutine may go on on another thread, and then the mutex is unlocked by a thread that does not own it;
// and whoever locks it meanwhile blocks his thread. libweft replaces no function of libc, so it does not see
// who locks what. But a mutex says which thread owns it, and there are few places where one can be: in a static
// object, or in an object at which a word of the stack points, a guard's, a reference's or a `this`, at its
// beginning or a little further. Elsewhere it is not found, nor a static one that is held only at some later park of
// the many at one place; what is found is one, for all that can be told.
#include <link.h>
#include <pthread.h>

#include "base/print.h"
#include "base/readable.h"
#include "debug/frame.h"
#include "debug/traceback.h"
#include "debug/waits.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "os/process.h"
#include "sched/diagnostics.h"

namespace weft::rt {

namespace {

// Where it was reported already: hashes of stacks.
constexpr std::size_t kPlaces = 64;
constexpr std::size_t kComparedFrames = 24;
constinit atomic<std::uint64_t> places[kPlaces] = {};

std::uint64_t hash_of(const frame& innermost) {
  std::uintptr_t pcs[kComparedFrames];
  const std::size_t count = collect_pcs(innermost, pcs, kComparedFrames);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ pcs[i]) * 0x100000001b3;
  return hash;
}

// Statics are megabytes, a fifth of a millisecond: they are looked at for the first parks at each place. Direct-mapped;
// an entry is the hash, with a count in its lowest bits.
bool is_rare_place(std::uint64_t hash) {
  constexpr std::size_t kSeen = 256;
  constexpr std::uint64_t kOften = 8, kCount = 15;
  static constinit atomic<std::uint64_t> seen[kSeen] = {};
  atomic<std::uint64_t>& place = seen[hash >> 56];
  const std::uint64_t known =
      place.load(WEFT_ORDER(HM0, relaxed));  // order: HM0 relaxed, a lone number
  const std::uint64_t times = (known & ~kCount) == (hash & ~kCount) ? known & kCount : 0;
  if (times >= kOften) return false;
  place.store((hash & ~kCount) | (times + 1),
              WEFT_ORDER(HM0, relaxed));  // order: HM0 relaxed, likewise
  return true;
}

// False: it was reported from here, or from so many places that nobody will read more.
bool is_new_place(std::uint64_t hash) {
  hash |= 1;  // 0: free
  for (atomic<std::uint64_t>& place : places) {
    std::uint64_t known = 0;
    // order: HM0 relaxed, lone numbers
    if (place.compare_exchange_strong(known, hash, WEFT_ORDER(HM0, relaxed),
                                      WEFT_ORDER(HM0, relaxed))) {
      return true;
    }
    if (known == hash) return false;
  }
  return false;
}

// Who was reported to hold what. A mutex stays its thread's while its goroutine is parked: the next goroutine
// that parks on that thread does not hold it.
struct holder {
  atomic<std::uintptr_t> mutex{0};
  atomic<std::uint64_t> goid{0};
  atomic<int> tid{0};
};
constexpr std::uint32_t kHolders = 64;
constinit holder holders[kHolders];
constinit atomic<std::uint32_t> holder_count{0};

void note_holder(std::uintptr_t mutex, std::uint64_t goid, int tid) {
  // order: HM0 relaxed, lone numbers; a torn entry costs a report, or has one too many
  holder& h = holders[holder_count.fetch_add(1, WEFT_ORDER(HM0, relaxed)) % kHolders];
  h.mutex.store(mutex, WEFT_ORDER(HM0, relaxed));  // order: HM0 relaxed, as above
  h.goid.store(goid, WEFT_ORDER(HM0, relaxed));    // order: HM0 relaxed, as above
  h.tid.store(tid, WEFT_ORDER(HM0, relaxed));      // order: HM0 relaxed, as above
}

bool is_somebody_elses(std::uintptr_t mutex, std::uint64_t goid, int tid) {
  for (const holder& h : holders) {
    // order: HM0 relaxed, as above
    if (h.mutex.load(WEFT_ORDER(HM0, relaxed)) == mutex &&
        h.tid.load(WEFT_ORDER(HM0, relaxed)) == tid &&
        h.goid.load(WEFT_ORDER(HM0, relaxed)) != goid) {
      return true;
    }
  }
  return false;
}

constexpr std::uintptr_t kLowest = 65536;
constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t kObject = 256;           // so much of an object is looked at
constexpr std::uintptr_t kMostStatics = 1 << 24;  // not every table of a program

// Requires: the memory can be read. Not instrumented: it reads other people's frames, and what they point at.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool is_own_mutex(std::uintptr_t at,
                                                                        int tid) {
  constexpr int kLastKind = 3;  // normal, recursive, error checking, adaptive
  const auto* m = reinterpret_cast<const pthread_mutex_t*>(at);
  const int lock = m->__data.__lock;
  return m->__data.__owner == tid && (lock == 1 || lock == 2) && m->__data.__nusers == 1 &&
         (m->__data.__kind & 0x7f) <= kLastKind;
}

std::uintptr_t find_in_memory(std::uintptr_t begin, std::uintptr_t end, std::uint64_t goid,
                              int tid) {
  constexpr std::uintptr_t kStep = alignof(pthread_mutex_t);
  begin = (begin + kStep - 1) & ~(kStep - 1);
  for (std::uintptr_t at = begin; at + sizeof(pthread_mutex_t) <= end; at += kStep) {
    if (is_own_mutex(at, tid) && !is_somebody_elses(at, goid, tid)) return at;
  }
  return 0;
}

// What was asked of the kernel so far: words of one stack point into a few pages.
class readable_pages {
 public:
  bool has(std::uintptr_t at, std::size_t size) {
    const std::uintptr_t first = at / kPage, last = (at + size - 1) / kPage;
    return has_page(first) && (first == last || has_page(last));
  }

 private:
  static constexpr std::size_t kKnown = 64;

  bool has_page(std::uintptr_t page) {
    std::uintptr_t& known = known_[page % kKnown];
    if (known >> 1 != page) known = page << 1 | (readable(page * kPage, 1) ? 1 : 0);
    return (known & 1) != 0;
  }

  std::uintptr_t known_[kKnown] = {};  // twice the number of the page, plus 1 if it can be read
};

[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] std::uintptr_t find_by_stack(
    std::uintptr_t begin, std::uintptr_t end, std::uint64_t goid, int tid) {
  readable_pages pages;
  for (std::uintptr_t at = begin; at + sizeof(void*) <= end; at += sizeof(void*)) {
    const std::uintptr_t word = *reinterpret_cast<const volatile std::uintptr_t*>(at);
    if (word < kLowest || word >> 47 != 0 || !pages.has(word, sizeof(pthread_mutex_t))) continue;
    const std::uintptr_t page_end = (word | (kPage - 1)) + 1;
    const std::uintptr_t sure = page_end < word + kObject ? page_end : word + kObject;
    const std::uintptr_t least = word + sizeof(pthread_mutex_t);
    if (const auto m = find_in_memory(word, sure < least ? least : sure, goid, tid)) return m;
  }
  return 0;
}

// The writable parts of the loaded files. Looked at while the loader lists them, which keeps them loaded. It holds a
// mutex for that, and so what is found counts only if it is still held afterwards.
struct statics_search {
  static constexpr int kMost = 8;
  std::uint64_t goid;
  int tid;
  std::uintptr_t found[kMost];
  int count = 0;
};

// Page by page: a program may have closed some, to find out who writes there.
void search_part(statics_search& search, std::uintptr_t begin, std::uintptr_t end) {
  for (std::uintptr_t at = begin; at < end; at = (at | (kPage - 1)) + 1) {
    std::uintptr_t open_end = at;
    while (open_end < end && readable(open_end, 1)) open_end = (open_end | (kPage - 1)) + 1;
    if (open_end > end) open_end = end;
    for (std::uintptr_t m = at; search.count < statics_search::kMost; ++m) {
      m = find_in_memory(m, open_end, search.goid, search.tid);
      if (m == 0) break;
      search.found[search.count++] = m;
    }
    at = open_end;
  }
}

int search_statics(dl_phdr_info* file, std::size_t, void* data) {
  auto& search = *static_cast<statics_search*>(data);
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const auto& part = file->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0 && part.p_memsz <= kMostStatics) {
      const std::uintptr_t begin = file->dlpi_addr + part.p_vaddr;
      search_part(search, begin, begin + part.p_memsz);
    }
  }
  return 0;
}

std::uintptr_t find_in_statics(std::uint64_t goid, int tid) {
  statics_search search{.goid = goid, .tid = tid, .found = {}};
  {
    // Somebody who is frozen may hold the loader's lock (IN1). At most a channel's is held here, for which nobody waits
    // with a P (CL-d).
    const outside there;
    dl_iterate_phdr(search_statics, &search);
  }
  for (int i = 0; i < search.count; ++i) {
    const std::uintptr_t m = search.found[i];
    if (readable(m, sizeof(pthread_mutex_t)) && is_own_mutex(m, tid)) return m;
  }
  return 0;
}

std::uintptr_t find_own_mutex(const G& gp, int tid, std::uintptr_t here, bool in_statics) {
  if (in_statics) {
    if (const auto m = find_in_statics(gp.goid, tid)) return m;
  }
  return find_by_stack(here, reinterpret_cast<std::uintptr_t>(gp.stk.hi), gp.goid, tid);
}

}  // namespace

void check_held_mutexes(const G& gp) {
  const int tid = gettid();
  const frame innermost = this_frame();
  const std::uint64_t place = hash_of(innermost);
  const std::uintptr_t mutex = find_own_mutex(
      gp, tid, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), is_rare_place(place));
  if (mutex == 0 || !is_new_place(place)) return;
  note_holder(mutex, gp.goid, tid);
  printer out;
  out.str("WARNING: weft: goroutine ").udec(gp.goid).str(" parks while it holds the std::mutex ");
  print_object(out, reinterpret_cast<const void*>(mutex));
  out.str(
      "\n\tit may go on on another thread, and who locks it meanwhile blocks his: use "
      "weft::mutex\n");
  print_stack(out, innermost, traceback_level::detail::user);
}

}  // namespace weft::rt

// See poll_desc.h: the table of records, and what the poller's news means for them.
#include "poll/poll_desc.h"

#include <cerrno>
#include <new>

#include "base/fatal.h"
#include "base/print.h"
#include "gmp/arena.h"
#include "gmp/inside.h"
#include "poll/ring.h"

namespace weft::rt {

namespace {

constexpr std::uint32_t kChunk = 256;         // records
constexpr std::uint32_t kMostChunks = 16384;  // four million descriptors

// Of a crowd of connections each record is a cache miss, and so is each waiter, on its goroutine's stack, and each
// goroutine: they are asked for ahead of their use.
constexpr int kAhead = 6;

constinit ranked_lock table_lock{lock_rank::poll_desc};
constinit bool started = false;         // guarded by table_lock
constinit std::uint32_t made = 0;       // guarded by table_lock
constinit poll_desc* unused = nullptr;  // guarded by table_lock
constinit atomic<poll_desc*> chunks[kMostChunks];
constinit atomic<bool> is_started{false};

poll_desc& record(std::uint32_t index) {
  // order: PT1 acquire pairs with make_chunk(): the records are made
  return chunks[index / kChunk].load(WEFT_ORDER(PT1, acquire))[index % kChunk];
}

// Locks: table_lock is held. Null: there are too many.
bool make_chunk() {
  if (made == kMostChunks) {
    return false;
  }
  auto* chunk =
      static_cast<poll_desc*>(arena_allocate(sizeof(poll_desc) * kChunk, alignof(poll_desc)));
  for (std::uint32_t i = kChunk; i-- > 0;) {
    poll_desc* pd = ::new (chunk + i) poll_desc();
    pd->name_timers();
    pd->index = made * kChunk + i;
    pd->next_free = unused;
    unused = pd;
  }
  // order: PT1 release publishes the records to those who get their names from the poller
  chunks[made++].store(chunk, WEFT_ORDER(PT1, release));
  return true;
}

void start() {
  if (!poller_start()) {
    {
      printer out;
      out.str("runtime: cannot make a poller, errno ").dec(errno).str("\n");
    }
    fatal("runtime: netpollinit failed");
  }
  started = true;
  // order: PT1 release publishes the poller; pairs with poller_started()
  is_started.store(true, WEFT_ORDER(PT1, release));
}

void start_once() {
  if (!started) {
    start();
  }
}

poll_desc* take_record() {
  const inside here;
  const scoped_lock held(table_lock);
  start_once();
  if (unused == nullptr && !make_chunk()) {
    return nullptr;
  }
  poll_desc* pd = unused;
  unused = pd->next_free;
  return pd;
}

void put_record(poll_desc* pd) {
  const inside here;
  const scoped_lock held(table_lock);
  pd->next_free = unused;
  unused = pd;
}

void renew(poll_desc* pd, int fd) {
  const inside here;
  const scoped_lock held(pd->lock);
  pd->renew();
  pd->fd = fd;
  pd->deadline[0] = pd->deadline[1] = kNever;
}

}  // namespace

void ensure_poller() {
  const inside here;
  const scoped_lock held(table_lock);
  start_once();
}

int open_poll_desc(int fd, poll_desc** to) {
  poll_desc* pd = take_record();
  if (pd == nullptr) {
    return ENFILE;
  }
  renew(pd, fd);
  const int error = poller_add(fd, pd->name());
  if (error != 0) {
    put_record(pd);
    return error;
  }
  *to = pd;
  return 0;
}

void close_poll_desc(poll_desc* pd) {
  WEFT_CHECK(pd->closing(), "a poll descriptor is let go that was not closed");
  poller_remove(pd->fd);
  put_record(pd);
}

ready_list collect_ready(std::int64_t deadline) {
  if (!poller_started()) {
    return {};
  }
  poll_news news[kMostNews];
  const int n = poller_wait(news, deadline);
  waiter* found[2 * kMostNews];
  int count = 0;
  for (int i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      __builtin_prefetch(&record(static_cast<std::uint32_t>(news[i + kAhead].name)), /*rw=*/1);
    }
    poll_desc& pd = record(static_cast<std::uint32_t>(news[i].name));
    const auto use = static_cast<std::uint32_t>(news[i].name >> 32);
    if (!pd.is_current(use)) {
      continue;
    }
    if (news[i].hung_up) {
      pd.hang_up(use);
    }
    if (waiter* w = news[i].readable ? pd.ready(direction::read, news[i].hung_up) : nullptr) {
      found[count++] = w;
      __builtin_prefetch(w, /*rw=*/1);
    }
    if (waiter* w = news[i].writable ? pd.ready(direction::write, false) : nullptr) {
      found[count++] = w;
      __builtin_prefetch(w, /*rw=*/1);
    }
  }
  ready_list list;
  for (int i = 0; i < count; ++i) {
    __builtin_prefetch(found[i]->gp, /*rw=*/1);
    list.add(found[i]);
  }
  reap_rings(list, deadline != 0);
  return list;
}

bool poller_started() noexcept {
  // order: PT1 acquire, pairs with start(): whoever looks has its descriptors
  return is_started.load(WEFT_ORDER(PT1, acquire));
}

}  // namespace weft::rt

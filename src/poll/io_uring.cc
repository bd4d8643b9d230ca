// Rings, by liburing. See ring.h for what they are to others.
//
// There is a ring per P, up to 16, each made when its P first has something for it: submitters of different
// Ps do not meet, in our lock or in the kernel's. An operation is submitted by whoever wants it, with one
// system call, under the ring's lock: what the kernel did not take is known then, and can be taken back. (It
// becomes an operation that does nothing, and goes along with the next.)
//
// Completions are reaped by whoever looks for news of descriptors (sched/netpoll.cc): the rings' descriptors
// are watched by the poller, level-triggered. So a completion is found by an M that has run out of work, ends the
// sleep of the one that waits, and is found by sysmon if all are busy. Looking costs three loads a ring; one thread at a
// time reaps a ring. Another that merely looks leaves it alone then; the one who waits in the poller waits here, too, since
// the poller would report the ring until it is empty.
//
// The kernel completes an operation on the thread that submitted it, when that is in the kernel next; it interrupts the
// thread for this if it computes or sleeps. So
//   * a sleep of that thread may end early: epoll_wait says EINTR. Other calls are restarted by the kernel, save those
//     that no signal handler restarts either;
//   * if that thread ends, some kernels cancel what it submitted: io/ring_wait.cc submits it again;
//   * while that thread is in an uninterruptible sleep, its completions wait.
//
// Room. At most kMostRingOps operations are under way, each with one cancellation: a ring has room for all
// completions, and does not overflow. Should it (tests make rings small), the kernel keeps the rest, and
// liburing fetches it.
//
// Workers. What cannot be done without waiting (sync, fallocate, some writes) the kernel gives to threads of its own. They
// count as threads of the process; two for each thread that submits are allowed, more would wait for the same disk.
//
// RG1: the bit of a ring is set when the ring is complete; whoever sees it may use the ring.
//
// Rejected: one ring (its lock would be held through every submission); a ring per M (there are more of them, and
// they come and go); a kernel thread that polls for submissions (burns a processor, or sleeps and must be woken); a
// thread of ours that submits (two more switches per operation); completions only when the submitter asks
// (DEFER_TASKRUN: it may compute, or sleep elsewhere, for long).
#include <cerrno>
#include <liburing.h>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/debug_vars.h"
#include "base/lock.h"
#include "fiber/sanitizer.h"
#include "gmp/inside.h"
#include "gmp/limited_waiter.h"
#include "gmp/p.h"
#include "os/test_hooks.h"
#include "poll/poll_desc.h"
#include "poll/ring.h"

namespace weft::rt {

namespace {

constexpr std::uint32_t kMostRings = 16;
constexpr unsigned kSubmissions = 32;
constexpr unsigned kRoom = 2 * kMostRingOps;
constexpr unsigned kWorkers = 2;

struct alignas(64) one_ring {
  ranked_lock submitting{lock_rank::poll_desc};
  io_uring ring{};  // its submission side is guarded by `submitting`, the other by `reaping`

  alignas(64) ranked_lock reaping{lock_rank::poll_desc};
  atomic<std::uint32_t> reaped{0};  // completions so far, changed by whoever reaps
};

constinit one_ring rings[kMostRings];
constinit atomic<std::uint32_t> made{0};     // a bit for each that is complete
constinit atomic<std::uint32_t> refused{0};  // a bit for each that could not be made
constinit atomic<bool> denied{false};        // the kernel has changed its mind

// errno belongs to the thread, and so to whichever goroutine is on it (epoll.cc).
template <class F>
WEFT_NO_TSAN auto keeping_errno(F call) {
  const int saved = errno;
  const auto result = call();
  errno = saved;
  return result;
}

// -- making one

bool has_everything(io_uring& ring) {
  constexpr unsigned kFeatures =
      IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS;
  constexpr io_uring_op kOperations[] = {
      IORING_OP_NOP,    IORING_OP_READ,  IORING_OP_WRITE,     IORING_OP_READV,
      IORING_OP_WRITEV, IORING_OP_FSYNC, IORING_OP_FALLOCATE, IORING_OP_ASYNC_CANCEL};
  constexpr unsigned kMost = 64;
  const std::int64_t pretend = os::test_hooks.deny_ring_feature.get();
  if ((ring.features & kFeatures) != kFeatures || pretend == 1) {
    return false;
  }
  alignas(io_uring_probe) unsigned char
      buffer[sizeof(io_uring_probe) + kMost * sizeof(io_uring_probe_op)] = {};
  auto* probe = reinterpret_cast<io_uring_probe*>(buffer);
  if (io_uring_register_probe(&ring, probe, kMost) < 0) {
    return false;
  }
  for (const io_uring_op op : kOperations) {
    if (op > probe->last_op || (probe->ops[op].flags & IO_URING_OP_SUPPORTED) == 0 ||
        (pretend == 2 && op == IORING_OP_FALLOCATE)) {
      return false;
    }
  }
  return true;
}

// Under its lock, and inside: nothing here allocates by malloc. 0 or an errno.
int set_up(io_uring& ring) {
  io_uring_params params{};
  params.flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  const auto room = static_cast<unsigned>(os::test_hooks.ring_room.get());
  params.cq_entries = room != 0 ? room : kRoom;
  const unsigned submissions = room != 0 && room < kSubmissions ? room : kSubmissions;
  int error = static_cast<int>(os::test_hooks.deny_io_uring.get());
  if (error == 0) {
    error =
        debug_vars.iouring == 0 ? EPERM : -io_uring_queue_init_params(submissions, &ring, &params);
  }
  if (error != 0) {
    return error;
  }
  io_uring_ring_dontfork(&ring);
  unsigned workers[2] = {kWorkers, kWorkers};
  io_uring_register_iowq_max_workers(&ring, workers);  // or as many as the kernel likes
  error = has_everything(ring) ? poller_watch(ring.ring_fd) : ENOSYS;
  if (error != 0) {
    io_uring_queue_exit(&ring);
  }
  return error;
}

// There was no descriptor or no memory to spare: the next one who wants a ring tries again.
bool may_pass(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
}

bool is_set(const atomic<std::uint32_t>& bits, std::uint32_t i) {
  // order: RG1 acquire pairs with make(): the ring is complete
  return (bits.load(WEFT_ORDER(RG1, acquire)) >> i & 1) != 0;
}

bool make(std::uint32_t i) {
  os::load_test_hooks();
  ensure_poller();
  const inside here;
  const scoped_lock held(rings[i].submitting);
  if (is_set(made, i) || is_set(refused, i)) {
    return is_set(made, i);
  }
  const int error = keeping_errno([&] { return set_up(rings[i].ring); });
  if (!may_pass(error)) {
    // order: RG1 release publishes the ring to those who see the bit
    (error == 0 ? made : refused).fetch_or(1u << i, WEFT_ORDER(RG1, release));
  }
  return error == 0;
}

bool there_is(std::uint32_t i) { return is_set(made, i) || (!is_set(refused, i) && make(i)); }

// Of the caller, which is inside: M and P are its own, though TSan sees them as the M's.
WEFT_NO_TSAN std::uint32_t number_of_p() {
  const M* mp = current_m();
  return mp == nullptr || mp->p == nullptr ? 0 : static_cast<std::uint32_t>(mp->p->id);
}

// That of the caller's P; the first one if that could not be made. Requires: ring_usable().
std::uint32_t choose() {
  const std::uint32_t i = number_of_p() % kMostRings;
  return i != 0 && there_is(i) ? i : 0;
}

// -- submitting

void describe(io_uring_sqe* sqe, const ring_op& op) {
  const auto at = static_cast<std::uint64_t>(op.offset);
  const auto* parts = static_cast<const iovec*>(op.address);
  switch (op.call) {
    case ring_call::read: io_uring_prep_read(sqe, op.fd, op.address, op.length, at); break;
    case ring_call::write: io_uring_prep_write(sqe, op.fd, op.address, op.length, at); break;
    case ring_call::readv: io_uring_prep_readv(sqe, op.fd, parts, op.length, at); break;
    case ring_call::writev: io_uring_prep_writev(sqe, op.fd, parts, op.length, at); break;
    case ring_call::sync: io_uring_prep_fsync(sqe, op.fd, 0); break;
    case ring_call::datasync: io_uring_prep_fsync(sqe, op.fd, IORING_FSYNC_DATASYNC); break;
    case ring_call::fallocate:
      io_uring_prep_fallocate(sqe, op.fd, op.mode, op.offset, op.size);
      break;
  }
}

int submit_all(io_uring& ring) {
  for (;;) {
    const auto pretend = static_cast<int>(os::test_hooks.ring_submit_error.get());
    const int n = pretend != 0 ? -pretend : keeping_errno([&] { return io_uring_submit(&ring); });
    if (io_uring_sq_ready(&ring) == 0) {
      return 0;
    }
    if (n <= 0 && n != -EINTR) {
      return n == 0 ? EAGAIN : -n;
    }
  }
}

// Locks: the ring's `submitting` is held. 0: the kernel has taken it.
template <class Describe>
int submit(io_uring& ring, void* data, Describe&& what) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring);
  if (sqe == nullptr) {  // full of what was taken back
    if (const int error = submit_all(ring); error != 0) {
      return error;
    }
    sqe = io_uring_get_sqe(&ring);
  }
  what(sqe);
  io_uring_sqe_set_data(sqe, data);
  const int error = submit_all(ring);
  if (error != 0) {
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);
  }
  return error;
}

// -- reaping

void finish(const io_uring_cqe& cqe, ready_list& list) {
  auto* op = static_cast<ring_op*>(io_uring_cqe_get_data(&cqe));
  if (op == nullptr) {
    return;  // a cancellation, or what was taken back
  }
  tsan_acquire(op);  // the kernel has carried it here
  op->result = cqe.res;
  if (waiter* w = op->done.complete()) {  // … and now it may be gone
    w = whom_to_wake(w);
    if (w != nullptr) {
      list.add(w);
    }
  }
}

void drain(one_ring& r, ready_list& list) WEFT_REQUIRES(r.reaping) {
  constexpr unsigned kBatch = 64;
  std::uint32_t head = r.reaped.load(WEFT_ORDER(RG0, relaxed));  // order: RG0 relaxed, locked
  io_uring_cqe* found[kBatch];
  while (const unsigned n =
             keeping_errno([&] { return io_uring_peek_batch_cqe(&r.ring, found, kBatch); })) {
    for (unsigned i = 0; i < n; ++i) {
      finish(*found[i], list);
    }
    io_uring_cq_advance(&r.ring, n);
    head += n;
    if (os::test_hooks.ring_overflow_late.get() != 0 && io_uring_cq_ready(&r.ring) == 0) {
      break;
    }
  }
  r.reaped.store(head, WEFT_ORDER(RG0, relaxed));  // order: RG0 relaxed, locked
}

// A ring that is empty may have overflowed, too: the kernel found it full just before drain() made room, and says so
// just after drain() has looked for the last time. The poller reports such a ring for ever.
bool has_some(one_ring& r) {
  // order: RG0 relaxed, a hint: what is missed now is reported by the poller
  return io_uring_smp_load_acquire(r.ring.cq.ktail) != r.reaped.load(WEFT_ORDER(RG0, relaxed)) ||
         io_uring_cq_has_overflow(&r.ring);
}

void reap(one_ring& r, ready_list& list, bool waits) {
  if (!has_some(r)) {
    return;
  }
  if (waits) {
    r.reaping.lock();
  } else if (!r.reaping.try_lock()) {
    return;
  }
  drain(r, list);
  r.reaping.unlock();
}

}  // namespace

bool ring_usable() noexcept {
  // order: RG0 relaxed, a switch on its own
  return !denied.load(WEFT_ORDER(RG0, relaxed)) && there_is(0);
}

int ring_submit(ring_op& op) noexcept {
  if (!ring_usable()) {
    return ENOSYS;
  }
  const inside here;
  op.ring = choose();
  tsan_release(&op, "RING");
  one_ring& r = rings[op.ring];
  const scoped_lock held(r.submitting);
  const int error = submit(r.ring, &op, [&](io_uring_sqe* sqe) { describe(sqe, op); });
  if (error == EPERM || error == ENOSYS || error == EACCES) {
    // A filter has come since, or it let the set-up through. What is under way will be completed.
    denied.store(true, WEFT_ORDER(RG0, relaxed));  // order: RG0 relaxed, as above
  }
  if (error == 0) {
    os::test_hooks.ring_operations.count_up();
  }
  return error;
}

void ring_cancel(ring_op& op) noexcept {
  const inside here;
  one_ring& r = rings[op.ring];
  tsan_release(&op, "RING");
  const scoped_lock held(r.submitting);
  // If it cannot be asked for, the operation ends in its own time.
  submit(r.ring, nullptr, [&](io_uring_sqe* sqe) { io_uring_prep_cancel(sqe, &op, 0); });
}

void reap_rings(ready_list& list, bool waits) noexcept {
  // order: RG1 acquire pairs with make(): the rings are complete
  for (std::uint32_t left = made.load(WEFT_ORDER(RG1, acquire)); left != 0; left &= left - 1) {
    reap(rings[__builtin_ctz(left)], list, waits);
  }
}

}  // namespace weft::rt

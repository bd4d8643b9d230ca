// How many Ps there are: by default as many as this process can use at once.
//
//     default = min(processors in the affinity mask, max(2, limit of the cgroups, rounded up))
//
// Two at least, for with one P a goroutine that computes leaves nothing for the others until it is
// interrupted; a quota below two is then used up in bursts, which is what quotas are like anyway. [CG-2]
//
// The default is followed while the program runs, until somebody says a number: WEFTMAXPROCS, run()'s
// option or gomaxprocs(n). Then the number is *custom*, and stays, until set_default_gomaxprocs().
//
//   sysmon, once a second              the helper, a goroutine          set_procs(n)
//   1. lock; custom or updating?       1. stop the world                1. lock; custom; unlock
//      nothing to do                   2. lock; custom? leave it as     2. not n, or updating? stop the
//   2. read affinity and limits           it is; else `wanted`             world; custom again; start it
//   3. another number: `wanted`,       3. start the world with that
//      updating; unlock                4. lock; updating is over
//   4. start the helper
//
// X1: once set_procs() has returned, the number does not change by itself, and nothing is read. `custom`
//     is set under the lock that sysmon holds while it reads, and the helper looks at it with the world
//     stopped. The catch is a plain thread, which no stop stops: it may find its n in place between the
//     helper's steps 2 and 3. So while `updating` it takes its turn behind the helper.
// X2: the last word counts. set_default_procs() leaves its result in `wanted`, for a helper that
//     sysmon has sent with an older one.
//
// sysmon cannot stop the world itself: it is the one who makes stubborn goroutines stop. The helper is a
// goroutine that exists only while there is something to do; one that is parked in between, as in
// Go, would be one more that deadlock checks, dumps and counts have to know about.
//
// Go: runtime/proc.go sysmonUpdateGOMAXPROCS, updateMaxProcsGoroutine; runtime/debug.go GOMAXPROCS
#include "sched/max_procs.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/debug_vars.h"
#include "os/cgroup.h"
#include "os/cpu.h"
#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::rt {

namespace {

struct procs_state {
  ranked_lock lock{lock_rank::leaf};  // held while files are read, but never across a stop
  bool custom WEFT_GUARDED_BY(lock) = false;
  bool updating WEFT_GUARDED_BY(lock) = false;    // a helper is on its way
  std::int32_t wanted WEFT_GUARDED_BY(lock) = 0;  // what it is to set
  bool opened WEFT_GUARDED_BY(lock) = false;      // quota is
  const char* tree WEFT_GUARDED_BY(lock) = "";
  cgroup::cpu_quota quota WEFT_GUARDED_BY(lock);

  once_a_second pace;  // sysmon only
  atomic<std::int32_t> proposed{0};
};

constinit procs_state procs;
constinit cgroup::scratch scratch WEFT_GUARDED_BY(procs.lock);  // all zero: costs no space in files

// The lock from user code's side of the border (section.h), or from a thread of the runtime's own.
class WEFT_SCOPED_CAPABILITY locked_section {
 public:
  locked_section() WEFT_ACQUIRE(procs.lock) : mp_(enter_runtime()) { procs.lock.lock(); }
  ~locked_section() WEFT_RELEASE() {
    procs.lock.unlock();
    leave_runtime(mp_);
  }
  locked_section(const locked_section&) = delete;
  locked_section& operator=(const locked_section&) = delete;

 private:
  M* mp_;
};

// [MP-3] A positive decimal int32, or 0.
std::int32_t parse_procs(const char* text) {
  if (text == nullptr || *text == '\0') {
    return 0;
  }
  std::int64_t n = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') {
      return 0;
    }
    n = n * 10 + (*text - '0');
    if (n > std::numeric_limits<std::int32_t>::max()) {
      return 0;
    }
  }
  return static_cast<std::int32_t>(n);
}

// Where the program asks for the default, and never by sysmon: it may be in a cage by then (os/cgroup.h, C1). If there
// are no limits, or they cannot be opened, whoever asks again looks again.
void look_for_limits_locked() WEFT_REQUIRES(procs.lock) {
  if (!procs.opened && debug_vars.containermaxprocs != 0) {
    procs.opened = procs.quota.open(scratch, procs.tree);
  }
}

// [CG-2]
std::int32_t compute_default_locked() WEFT_REQUIRES(procs.lock) {
  std::int64_t n = affinity_cpus();
  if (debug_vars.containermaxprocs != 0) {
    n = std::min(n, std::max<std::int64_t>(2, procs.quota.processors()));
  }
  return static_cast<std::int32_t>(std::min<std::int64_t>(n, kMaxProcs));
}

// Steps 1 and 2 of sysmon.
bool changed_locked(std::int32_t* n) WEFT_REQUIRES(procs.lock) {
  if (procs.custom || procs.updating) {
    return false;
  }
  *n = compute_default_locked();
  return *n != sched.proc_count();
}

// The helper.
void apply_default(void*) {
  stop_world();
  std::int32_t n = sched.proc_count();
  {
    const locked_section held;
    if (!procs.custom) {
      n = procs.wanted;
    }
  }
  start_world_with(n);
  const locked_section held;
  procs.updating = false;
}

}  // namespace

void propose_procs(std::int32_t n) {
  // order: relaxed, whoever proposes it says it again once the runtime has started
  procs.proposed.store(n, WEFT_ORDER(PN0, relaxed));
}

std::int32_t initial_procs() {
  const scoped_lock held(procs.lock);
  std::int32_t said = procs.proposed.load(WEFT_ORDER(PN0, relaxed));  // order: relaxed, see above
  if (said <= 0) {
    said = parse_procs(std::getenv("WEFTMAXPROCS"));
  }
  procs.custom = said > 0;
  if (procs.custom) {
    return std::min<std::int32_t>(said, kMaxProcs);
  }
  look_for_limits_locked();
  return compute_default_locked();
}

std::int32_t set_procs(std::int32_t n) {
  n = std::min<std::int32_t>(n, kMaxProcs);
  {
    const locked_section held;
    procs.custom = true;
    if (n == sched.proc_count() && !procs.updating) {
      return n;
    }
  }
  stop_world();
  const std::int32_t before = sched.proc_count();  // another stopper may have come first
  {
    const locked_section held;
    procs.custom = true;  // … and may have been set_default_procs()
  }
  start_world_with(n);
  return before;
}

void set_default_procs() {
  std::int32_t n = 0;
  {
    const locked_section held;
    look_for_limits_locked();
    n = compute_default_locked();
    if (!procs.custom && !procs.updating && n == sched.proc_count()) {
      return;
    }
  }
  stop_world();
  {
    const locked_section held;
    procs.custom = false;
    procs.wanted = n;  // keeps X2
  }
  start_world_with(n);
}

bool default_procs_changed(std::int32_t* n) {
  const locked_section held;
  return changed_locked(n);
}

void update_default_procs(std::int64_t now) {
  if (debug_vars.updatemaxprocs != 0 && procs.pace.due(now)) {
    follow_default_procs();
  }
}

void follow_default_procs() {
  {
    const locked_section held;
    std::int32_t n = 0;
    if (!changed_locked(&n)) {
      return;
    }
    procs.wanted = n;
    procs.updating = true;
  }
  if (!start_helper(apply_default)) {
    const locked_section held;
    procs.updating = false;  // the next round will try again
  }
}

void look_for_limits_in(const char* tree) {
  const locked_section held;
  procs.quota.close();
  procs.opened = false;
  procs.tree = tree == nullptr ? "" : tree;
}

}  // namespace weft::rt

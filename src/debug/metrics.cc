// runtime::metrics(): numbers about the scheduler, by Go's names [27.4]; what Go has not is below /weft.
//
// Everything is counted where it happens, per P, by its owner; reading sums up, stops nobody, and is
// approximate while others run. Latencies are sampled, so that a fast path reads no clock
// (sample_runnable() in sched/sched_api.h).
#include <algorithm>
#include <cstdint>
#include <limits>
#include <sys/resource.h>
#include <vector>

#include <weft/runtime.h>

#include "base/debug_vars.h"
#include "gmp/inside.h"
#include "os/clock.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

using runtime::metric;

struct goroutine_counts {
  std::int64_t total = 0, running = 0, runnable = 0, not_in_go = 0, created = 0;
  std::int64_t waiting() const {
    return std::max<std::int64_t>(0, total - running - runnable - not_in_go);
  }
};

// Not instrumented: others are at work meanwhile.
WEFT_NO_TSAN goroutine_counts count_goroutines() {
  goroutine_counts n;
  const inside here;
  const scoped_lock held(sched.lock);
  n.total = live_goroutines();
  n.runnable = sched.runq.size();
  // order: GI0 relaxed, a statistic
  n.created = static_cast<std::int64_t>(sched.goid_next.load(WEFT_ORDER(GI0, relaxed))) - 2;
  // order: MS0 relaxed, a statistic
  n.created += sched.main_started.load(WEFT_ORDER(MS0, relaxed)) != 0 ? 1 : 0;
  for (std::int32_t i = 0; const P* pp = sched.ps.ever(i); ++i) {
    n.created -= static_cast<std::int64_t>(pp->goid_end - pp->goid_next);
    n.runnable += pp->runq.size() + (pp->runq.peek_next() != nullptr ? 1u : 0u);
  }
  for (const M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    const G* const gp = *const_cast<G* const volatile*>(&mp->curg);  // once: it changes meanwhile
    if (gp == nullptr || gp->frozen) continue;                       // those are in the queue
    ++(mp->p != nullptr ? n.running : n.not_in_go);
  }
  return n;
}

metric number(const char* name, const char* what, std::int64_t value) {
  metric m;
  m.name = name;
  m.description = what;
  m.what = metric::kind::count;
  m.count = static_cast<std::uint64_t>(std::max<std::int64_t>(0, value));
  return m;
}

metric seconds(const char* name, const char* what, double value) {
  metric m;
  m.name = name;
  m.description = what;
  m.what = metric::kind::value;
  m.value = value;
  return m;
}

template <class Sum>
metric times(const char* name, const char* what, Sum sum) {
  metric m;
  m.name = name;
  m.description = what;
  m.what = metric::kind::histogram;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  m.buckets.push_back(-kInfinity);
  for (int i = 0; i <= time_histogram::kBuckets; ++i) {
    m.buckets.push_back(static_cast<double>(time_histogram::lower_bound(i)) * 1e-9);
  }
  m.buckets.push_back(kInfinity);
  for (int i = -1; i <= time_histogram::kBuckets; ++i) m.counts.push_back(sum(i));
  return m;
}

metric times(const char* name, const char* what, const time_histogram& of) {
  return times(name, what, [&of](int i) { return of.count(i); });
}

std::uint64_t latencies(int bucket) {
  std::uint64_t n = 0;
  for (std::int32_t i = 0; const P* pp = sched.ps.ever(i); ++i) n += pp->latencies.count(bucket);
  return n;
}

double mutex_wait_seconds() {
  // order: MW0 relaxed, statistics
  std::int64_t ns = sched.foreign_mutex_wait.load(WEFT_ORDER(MW0, relaxed));
  for (std::int32_t i = 0; const P* pp = sched.ps.ever(i); ++i) {
    ns += pp->mutex_wait.load(WEFT_ORDER(MW0, relaxed));  // order: MW0 statistics
  }
  return static_cast<double>(ns) * 1e-9;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

std::int32_t threads() {
  const inside here;
  const scoped_lock held(sched.lock);
  return sched.m_count;
}

void add_preemption(std::vector<metric>& all) {
  std::uint64_t freezes, robberies;
  {
    const inside here;
    const scoped_lock held(sched.lock);
    freezes = sched.freezes;
    robberies = sched.robberies;
  }
  all.push_back(number("/weft/sched/preemptions:events",
                       "goroutines interrupted by a signal and frozen, so that others could run",
                       static_cast<std::int64_t>(freezes)));
  all.push_back(number("/weft/sched/handoffs:events",
                       "Ps taken from goroutines that were in a call that blocks",
                       static_cast<std::int64_t>(robberies)));
}

void add_goroutines(std::vector<metric>& all) {
  const goroutine_counts n = count_goroutines();
  all.push_back(number("/sched/goroutines:goroutines", "goroutines that exist", n.total));
  all.push_back(number("/sched/goroutines/running:goroutines",
                       "goroutines that run; at most gomaxprocs", n.running));
  all.push_back(number("/sched/goroutines/runnable:goroutines",
                       "goroutines that are ready to run and wait for their turn", n.runnable));
  all.push_back(number("/sched/goroutines/not-in-go:goroutines",
                       "goroutines in a call of the system or of C, without a P", n.not_in_go));
  all.push_back(number("/sched/goroutines/waiting:goroutines", "goroutines that wait for something",
                       n.waiting()));
  all.push_back(number("/sched/goroutines-created:goroutines", "goroutines created since the start",
                       n.created));
}

void add_times(std::vector<metric>& all) {
  all.push_back(times("/sched/latencies:seconds",
                      "times that goroutines were runnable before they ran; a sample", latencies));
  all.push_back(times("/sched/pauses/stopping/gc:seconds",
                      "times from runtime::gc()'s wish to stop the world until it stood",
                      sched.pauses.stopping_gc));
  all.push_back(times("/sched/pauses/stopping/other:seconds",
                      "the same for all others who stop the world", sched.pauses.stopping_other));
  all.push_back(times("/sched/pauses/total/gc:seconds",
                      "times from the wish of runtime::gc() until the world went on",
                      sched.pauses.total_gc));
  all.push_back(times("/sched/pauses/total/other:seconds",
                      "the same for all others who stop the world", sched.pauses.total_other));
}

}  // namespace

}  // namespace weft::rt

namespace weft::runtime {

std::vector<metric> metrics() {
  rt::ensure_started();
  std::vector<metric> all;
  const double used = rt::cpu_seconds();
  const double offered = static_cast<double>(rt::nanotime() - rt::sched.started_at) * 1e-9 *
                         static_cast<double>(rt::sched.proc_count());
  all.push_back(rt::seconds("/cpu/classes/idle:cpu-seconds",
                            "processor time that gomaxprocs allowed and nobody used",
                            std::max(0.0, offered - used)));
  all.push_back(rt::seconds("/cpu/classes/user:cpu-seconds",
                            "processor time that the process has used", used));
  const auto changed = [&all](const char* name, std::int32_t value) {
    all.push_back(rt::number(name, "1 if WEFTDEBUG has switched the behaviour off", value == 0));
  };
  changed("/godebug/non-default-behavior/containermaxprocs:events",
          rt::debug_vars.containermaxprocs);
  changed("/godebug/non-default-behavior/updatemaxprocs:events", rt::debug_vars.updatemaxprocs);
  all.push_back(rt::number("/sched/gomaxprocs:threads", "goroutines that may run at once",
                           rt::sched.proc_count()));
  rt::add_goroutines(all);
  rt::add_times(all);
  rt::add_preemption(all);
  all.push_back(
      rt::number("/sched/threads/total:threads", "threads of the runtime", rt::threads()));
  all.push_back(rt::seconds("/sync/mutex/wait/total:seconds",
                            "time that goroutines have waited for mutexes; an estimate by a sample",
                            rt::mutex_wait_seconds()));
  std::sort(all.begin(), all.end(),
            [](const metric& a, const metric& b) { return a.name < b.name; });
  return all;
}

}  // namespace weft::runtime

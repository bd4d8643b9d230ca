// See scheduler.h: what src/sched calls and what a model cannot have.
#include "model/scheduler.h"

#include <array>
#include <cstring>

#include "base/debug_vars.h"
#include "gmp/arena.h"
#include "os/clock.h"
#include "os/process.h"
#include "poll/poll_desc.h"
#include "sched/foreign.h"
#include "sched/freeze.h"
#include "sched/park.h"
#include "sched/preempt.h"
#include "sched/spawn.h"
#include "sched/spawner.h"
#include "sched/switch.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"
#include "sched/world.h"

namespace weft::rt {

constinit sched_state sched;
constinit debug_vars_t debug_vars;

namespace {

M* bound[model::kThreads + 1];       // by modelled thread
model::note begun[model::kThreads];  // by M: its thread has been created
bool spawned[model::kThreads];       // … by the spawner, which has not counted it yet
M* spares[model::kThreads];
int spare_count = 0;
int no_errno = 0;
eh_state no_exceptions;

}  // namespace

M* current_m() noexcept { return bound[model::engine::get().current()]; }

bool thread_stops_world() noexcept { return false; }
void set_thread_stops_world(bool) noexcept {}
void ensure_started() {}
void watch_thread_exit() {}
bool process_is_exiting() { return model::exiting_thread >= 0; }
bool this_thread_exits() { return model::exiting_thread == model::engine::get().current(); }
void sleep_in_exit(waiter& w) { w.event.sleep(); }
bool crashing() noexcept { return false; }
std::int64_t nanotime() noexcept { return model::now; }
int count_tasks() noexcept { return model::tasks(); }
void* arena_allocate(std::size_t bytes, std::size_t align) {
  void* const memory = model::engine::get().allocate(bytes, align);
  return std::memset(memory, 0, bytes);  // of the last execution
}

M* reserve_m(std::int32_t) {
  model::check(spare_count > 0, "the scenario has too few threads");
  ++sched.m_count;
  return spares[--spare_count];
}

void start_thread(M* mp, P* pp, bool spinning) {
  mp->spinning = spinning;
  mp->nextp = pp;
  model::wait_for_libc();
  begun[mp->id].wake();
}

// One pass, runnext included: what a thief that looks long enough comes to.
G* spin_for_work(M* mp) {
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    P* victim = sched.p(i);
    std::int64_t now = 0;
    bool inherit = false;
    if (run_timers(mp, victim, &now)) {
      if (G* gp = take_local(mp->p, &inherit)) return gp;
    }
    if (victim == mp->p) continue;
    if (!sched.runq.empty()) return nullptr;
    if (G* gp = victim->runq.steal_into(mp->p->runq)) return gp;
    if (G* gp = victim->runq.steal_next(victim->runq.peek_next())) return gp;
  }
  return nullptr;
}

ready_list collect_ready(std::int64_t deadline) {
  if (deadline != 0) {
    model::engine::get().block(model::kernel_poller::is_due, &model::the_poller, "the poller",
                               deadline != kNever);
    model::the_poller.broken = false;
  }
  return model::the_poller.take();
}

void poller_break() noexcept {
  model::engine::get().point();
  model::the_poller.broken = true;
}

// Plain threads, and goroutines that need not wait.
void block(waiter& w, commit_fn commit, void* arg, void*, wait_reason) {
  w.gp = nullptr;
  block_thread(w, commit, arg);
}

// Nobody is frozen or robbed unless a scenario does it.
constinit long_sleep sysmon_rest;
bool is_sysmon() noexcept { return model::engine::get().current() == model::sysmon_thread; }
bool may_create_threads() { return !is_sysmon(); }
// As the real one, but for the thread in between.
void request_spare_ms_locked(std::int32_t n) {
  for (std::int32_t missing = n - sched.idle_m_count - sched.spares_coming; missing > 0;
       --missing) {
    model::check(spare_count > 0, "the scenario has too few threads");
    M* mp = spares[--spare_count];
    ++sched.spares_coming;
    mp->spinning = false;
    mp->nextp = nullptr;
    spawned[mp->id] = true;
    begun[mp->id].wake();
  }
}
void start_system_threads() {}

// Signals: a thread takes one before any of its operations, or while it computes.
bool live_borders = false;
long long task_cpu_time(int) noexcept { return 0; }
bool task_runs(int) noexcept { return false; }
void ask_for_short_slices(bool, bool) noexcept {}
char task_state(int) noexcept { return 'S'; }
bool task_waits_for_lock(int) noexcept { return true; }
G* current_goroutine() noexcept {
  M* mp = current_m();
  return mp == nullptr ? nullptr : mp->curg;
}

namespace {

bool pending[model::kThreads], masked[model::kThreads];  // by the thread's id, which begins with 1

bool is_due(const M* mp) { return pending[mp->tid - 1] && !masked[mp->tid - 1]; }

// By the thread's id again. Whom exit() wants to hold, has woken for it, and holds.
struct in_exit {
  bool wanted = false, roused = false, held = false;
  bool computes = false;
};
in_exit stragglers[model::kThreads];

void take_signal(M* mp) {
  const int thread = mp->tid - 1;
  pending[thread] = false;
  masked[thread] = true;
  if (model::engine::get().tracing()) model::engine::get().trace("signal");
  freeze_for_exit();
  if (take_request(mp)) obey_request(mp);
  masked[thread] = false;
}

void maybe_take_signal() {
  M* mp = current_m();
  if (mp != nullptr && is_due(mp) && model::engine::get().choose(2) == 1) take_signal(mp);
}

}  // namespace

bool send_runtime_signal(int tid) noexcept {
  pending[tid - 1] = true;  // runtime::have_signals()
  return true;
}

bool freeze_for_exit() {
  in_exit& me = stragglers[current_m()->tid - 1];
  if (!me.wanted) return false;
  me.held = true;
  model::engine::get().block([](const void*) { return false; }, nullptr, "exit()");
  return true;
}

namespace {

bool all_are_held(const void*) {
  for (const in_exit& each : stragglers) {
    // Who is in the runtime sleeps there, or takes the signal when it has left that.
    if (each.wanted && !each.held && (each.roused || each.computes)) return false;
  }
  return true;
}

void stop_one(int tid) {
  if (tid == 0 || (current_m() != nullptr && tid == current_m()->tid)) return;
  stragglers[tid - 1].wanted = true;
  send_runtime_signal(tid);
}

// As freeze_stragglers().
void stop_stragglers() {
  {
    const inside here;
    const scoped_lock held(sched.lock);
    for (const M* mp = sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) stop_one(mp->tid);
    for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
      stop_one(sched.p(i)->thread.load(std::memory_order_relaxed));  // order: under the lock
    }
    rouse_frozen_locked([](int tid) {
      stragglers[tid - 1].wanted = stragglers[tid - 1].roused = true;
      return true;
    });
  }
  model::engine::get().block(all_are_held, nullptr, "those who are to be frozen");
}

}  // namespace

// What brings a plain thread in is not modelled, and how it leaves again is.
void start_main(detail::spawn_slot, const main_start&) {}
void preselect_main(detail::spawn_slot, const main_start&) {}
void bind_thread(M*) {}
int runtime_signal() noexcept { return 0; }
void set_current_m(M* mp) noexcept { bound[model::engine::get().current()] = mp; }
void set_current_id(const std::uint64_t*) noexcept {}  // locks have models of their own
void signal_stack::abandon() noexcept {}

// No stacks: a switch to a goroutine calls its next step.
constinit stack_pool the_stacks;
void stack_pool::give(const stack*, std::size_t) noexcept {}
void bind_stack(P*, G*) {}
void stack_give(P*, const stack&, bool) {}
void G::bad_transition(g_status, g_status, g_status) const { fatal("bad goroutine transition"); }

departure goroutine_main(void*) { fatal("models switch to jobs"); }

void* weft_switch(context*, const context*, void* transfer, context_entry) noexcept {
  auto* mp = static_cast<M*>(transfer);
  static_cast<model::job*>(mp->curg)->run(mp);
  mp->curg = nullptr;
  return transfer;
}

}  // namespace weft::rt

namespace weft::model {

void runtime::have_signals(bool anywhere) {
  rt::live_borders = true;
  engine::get().interrupt = anywhere ? rt::maybe_take_signal : nullptr;
  for (int i = 0; i < kThreads; ++i) {
    rt::pending[i] = rt::masked[i] = false;
    rt::stragglers[i] = {};
    if (i < kMs && ms_[i] != nullptr) ms_[i]->tid = i + 1;
  }
}

bool runtime::held_in_exit(int m) const { return rt::stragglers[ms_[m]->tid - 1].held; }

bool exit_process() {
  const auto is_first = [] {
    engine::get().point();
    if (exiting_thread >= 0) return false;
    exiting_thread = engine::get().current();
    return true;
  };
  const auto found = rt::freeze_world(is_first, 1);
  check(found != rt::world_at_exit::frozen_by_another, "only one exits here");
  bool outside = false;
  {
    const rt::inside here;
    const rt::scoped_lock held(rt::sched.lock);
    outside = rt::sched.robbed_ms != nullptr || rt::sched.frozen_ms > 0;
  }
  const bool rests = found == rt::world_at_exit::frozen;
  if (!rests || outside) rt::stop_stragglers();
  return rests;
}

void take_signal_if_due() {
  if (rt::is_due(rt::current_m())) rt::take_signal(rt::current_m());
}

bool runtime::signalled(int m) const { return rt::pending[ms_[m]->tid - 1]; }

void user_code(const std::function<void()>& body) {
  rt::leave_runtime(rt::current_m());
  body();
  rt::enter_runtime();
}

namespace {

struct computation {
  rt::M* on;
  const bool* until;
};

}  // namespace

void compute(const bool& until) {
  const computation c{rt::current_m(), &until};
  bool& computes = rt::stragglers[c.on->tid - 1].computes;
  computes = true;
  while (!until) {
    engine::get().block(
        [](const void* which) {
          const auto* it = static_cast<const computation*>(which);
          return *it->until || rt::is_due(it->on);
        },
        &c, "a computation");
    if (rt::is_due(c.on)) rt::take_signal(c.on);
  }
  computes = false;
}

std::function<int()> tasks;
std::int64_t now = 100;
const bool* libc_is_locked = nullptr;
bool libc_is_wanted = false;
int libc_wishes = 0, libc_waiters = 0;

void wait_for_libc() {
  libc_is_wanted = true;
  ++libc_wishes;
  if (libc_is_locked == nullptr) return;
  ++libc_waiters;
  engine::get().block([](const void* locked) { return !*static_cast<const bool*>(locked); },
                      libc_is_locked, "a lock of libc's");
  --libc_waiters;
}

int exiting_thread = -1;
int sysmon_thread = -1;
kernel_poller the_poller;

// --- the poller ------------------------------------------------------------------------------

bool kernel_poller::is_due(const void* self) {
  const auto* p = static_cast<const kernel_poller*>(self);
  return p->broken || !p->news.empty();
}

void kernel_poller::reset() {
  news.clear();
  broken = false;
}

void kernel_poller::ready(rt::poll_core<rt::waiter>* desc) {
  lock.lock();
  news.push_back(desc);
  lock.unlock();
}

rt::ready_list kernel_poller::take() {
  lock.lock();
  const auto all = std::move(news);
  news.clear();
  lock.unlock();
  rt::ready_list list;
  for (auto* desc : all) {
    if (rt::waiter* w = desc->ready(rt::direction::read, false)) list.add(w);
  }
  return list;
}

// --- goroutines ------------------------------------------------------------------------------

void job::prepare() {
  payload.set(1);
  status.store(rt::g_status::runnable, std::memory_order_relaxed);  // order: the queue publishes it
}

void job::run(rt::M* mp) {
  engine& e = engine::get();
  check(payload.get() == 1, "a goroutine runs that is half written");
  check(ran == 0, "a goroutine runs twice");
  frames.set(step);
  if (e.tracing()) e.trace("runs " + e.name_of(static_cast<rt::G*>(this)));
  if (step < static_cast<int>(steps.size())) steps[static_cast<std::size_t>(step++)]();
  if (mp->left_wants != rt::leaving::nothing) return;  // parked or yielded
  ran = 1;
  if (endless) e.block([](const void*) { return false; }, nullptr, "an endless goroutine");
  transition<rt::g_status::running, rt::g_status::dead>();
  m = nullptr;
}

void park(rt::waiter* w, rt::commit_fn commit, void* arg) {
  rt::M* mp = rt::current_m();
  mp->commit = commit;
  mp->commit_waiter = w;
  mp->commit_arg = arg;
  mp->curg->transition<rt::g_status::running, rt::g_status::waiting>();
  rt::leave_stack(mp, mp->curg, rt::leaving::parked);
}

void yield() {
  rt::M* mp = rt::current_m();
  mp->curg->transition<rt::g_status::running, rt::g_status::runnable>();
  rt::leave_stack(mp, mp->curg, rt::leaving::yielded);
}

// --- set-up ----------------------------------------------------------------------------------

runtime::runtime(world& w, int procs, int ms) {
  rt::sched.~sched_state();
  new (&rt::sched) rt::sched_state;
  for (auto& mp : rt::bound) mp = nullptr;
  rt::spare_count = 0;
  tasks = [] { return -1; };
  exiting_thread = sysmon_thread = -1;
  libc_is_locked = nullptr;
  libc_is_wanted = false;
  libc_wishes = libc_waiters = 0;
  rt::live_borders = false;
  the_poller.reset();
  for (int i = 0; i < ms; ++i) {
    ms_[i] = w.make<rt::M>();
    ms_[i]->id = static_cast<std::uint64_t>(i);
    ms_[i]->errno_location = &rt::no_errno;
    ms_[i]->eh_globals = &rt::no_exceptions;
    ms_[i]->all_next = rt::sched.all_ms;
    rt::sched.all_ms = ms_[i];
    rt::begun[i].clear();
    rt::spawned[i] = false;
    name(&ms_[i]->park, "note of M", i);
    name(&rt::begun[i], "start of M", i);
  }
  for (int i = 0; i < procs; ++i) {
    ps_[i] = w.make<rt::P>();
    ps_[i]->id = i;
    ps_[i]->lone = procs == 1;
    ps_[i]->runq.set_lone(procs == 1);
    name(ps_[i], "P", i);
  }
  auto* entries = w.make<std::array<rt::p_table<rt::P>::entry, kPs + 1>>();
  rt::sched.ps.adopt(entries->data(), kPs);
  for (int i = 0; i < procs; ++i) rt::sched.ps.put(i, ps_[i]);
  rt::sched.ps.set_count(procs);
  rt::sched.ps_made = procs;
  for (int i = procs; i-- > 0;) rt::idle_p_put(ps_[i]);
  name(&rt::sched.lock, "sched.lock");
}

void runtime::count_goroutines(int n) {
  // order: before there are threads
  rt::sched.foreign_goroutines.store(n, std::memory_order_relaxed);
}

job* runtime::make_job(world& w, const char* text) {
  job* j = w.make<job>();
  name(static_cast<rt::G*>(j), text);
  return j;
}

// Before there are threads.
WEFT_NO_THREAD_SAFETY_ANALYSIS void runtime::holds(int i, int p, bool spinning) {
  rt::P** link = &rt::sched.idle_ps;
  while (*link != ps_[p]) link = &(*link)->idle_next;
  *link = ps_[p]->idle_next;
  ps_[p]->idle_next = nullptr;
  rt::sched.idle.add_idle(-1);
  rt::acquire_p(ms_[i], ps_[p]);
  ms_[i]->spinning = spinning;
  if (spinning) rt::sched.idle.become_spinning();
  ++rt::sched.m_count;
}

// Before there are threads.
WEFT_NO_THREAD_SAFETY_ANALYSIS void runtime::idles(int i) {
  rt::idle_m_put(ms_[i]);
  ++rt::sched.m_count;
}

void runtime::queued(int i, job* j) {
  j->prepare();
  rt::queue_put(ms_[i], ms_[i]->p, j, /*next=*/false);
}

// --- threads ---------------------------------------------------------------------------------

void runtime::thread(world& w, const char* text, int i, std::function<void()> body) {
  rt::M* mp = ms_[i];
  w.thread(text, [mp, body = std::move(body)] {
    rt::bound[engine::get().current()] = mp;
    body();
  });
}

void runtime::serve(world& w, const char* text, int i) {
  rt::M* mp = ms_[i];
  w.service(text, [mp] { loop(mp); });
}

void runtime::leaver(world& w, const char* text, int i, bool& left) {
  rt::M* mp = ms_[i];
  w.service(text, [mp, &left] {
    loop(mp);
    rt::leave_m(mp);
    left = true;
  });
}

void runtime::next_thread(world& w, const char* text, int i, const bool& left, job* j) {
  rt::M* mp = ms_[i];
  const auto body = [=, this] {
    mp->begin_thread(kThreads);
    rt::sched.lock.lock();
    ++rt::sched.m_count;
    rt::P* pp = rt::idle_p_get();
    rt::sched.lock.unlock();
    rt::acquire_p(mp, pp);
    queued(i, j);
    loop(mp);
  };
  w.service(
      text, body, [](const void* f) { return *static_cast<const bool*>(f); }, &left);
}

void runtime::dry(world& w, const char* text, int i) {
  rt::M* mp = ms_[i];
  w.service(text, [mp] {
    mp->preselected = rt::go_idle(mp);
    loop(mp);
  });
}

namespace {

void sleep_for_p(rt::M* mp) {
  rt::sched.lock.lock();
  rt::sleep_for_p_unlock(mp);
}

}  // namespace

void runtime::sleeper(world& w, const char* text, int i) {
  rt::M* mp = ms_[i];
  const auto body = [mp] {
    sleep_for_p(mp);
    loop(mp);
  };
  w.service(text, body, note::is_woken, &mp->park);
}

void runtime::watcher(world& w, const char* text, int i) {
  rt::M* mp = ms_[i];
  w.service(text, [mp] {
    sleep_for_p(mp);
    loop(mp);
  });
}

void runtime::dozer(world& w, const char* text, int i, std::int64_t until) {
  rt::M* mp = ms_[i];
  w.service(text, [mp, until] {
    mp->park.sleep_until(until);
    sleep_for_p(mp);
    loop(mp);
  });
}

void runtime::napper(world& w, const char* text, int i) {
  rt::M* mp = ms_[i];
  w.service(text, [mp] {
    rt::bound[engine::get().current()] = mp;
    if (rt::sched.dozer.begin()) {
      while (!rt::others_have_work(nullptr) && rt::sched.dozer.sleep()) {
      }
      rt::sched.dozer.end();
    }
    loop(mp);
  });
}

void runtime::spares(world& w, int i) {
  static const char* const kNames[kMs] = {"M0", "M1", "M2", "M3", "M4", "M5"};
  for (; i < kMs && ms_[i] != nullptr; ++i) {
    rt::M* mp = ms_[i];
    rt::spares[rt::spare_count++] = mp;
    const auto body = [mp] {
      rt::begun[mp->id].sleep();
      rt::P* pp = mp->nextp;
      mp->nextp = nullptr;
      if (rt::spawned[mp->id]) {
        const rt::scoped_lock held(rt::sched.lock);
        ++rt::sched.m_count;
      }
      if (pp != nullptr) {
        rt::sched.creators.fetch_sub(1, std::memory_order_relaxed);  // order: as in m_main()
        rt::acquire_p(mp, pp);
      } else {
        rt::join_idle_ms(mp);
      }
      loop(mp);
    };
    w.service(kNames[i], body, note::is_woken, &rt::begun[i]);
  }
}

void runtime::loop(rt::M* mp) {
  rt::bound[engine::get().current()] = mp;
  rt::schedule(mp);
}

void runtime::submit(int i, job* j) {
  j->prepare();
  rt::queue_put(ms_[i], ms_[i]->p, j, /*next=*/true);
  rt::wake_p(ms_[i]->p);
}

void runtime::check_quiet(int idle_ps) {
  check(rt::sched.idle.spinning() == 0, "everybody sleeps, and somebody counts as spinning");
  check(rt::sched.idle.idle() == idle_ps, "the number of idle Ps is wrong");
}

}  // namespace weft::model

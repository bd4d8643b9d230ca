// The scheduler itself on modelled threads: src/sched/schedule.cc, find_runnable.cc, idle.cc,
// ready.cc, queue.cc, world.cc, foreign.cc, locked.cc and deadlock.cc compiled with WEFT_MODEL, not a
// retelling of them.
//
// What they call and what would not fit into a model is replaced in scheduler.cc: a thread is a
// modelled thread, a goroutine is a sequence of functions that run without a stack of their own,
// stealing makes one pass over its victims, and the kernel's list of tasks is a function.
//
// A scenario makes a runtime, gives Ps to Ms, and describes what each thread does. Ms that serve run
// schedule() and may be asleep at the end; finally() then looks whether work was left.
#pragma once

#include <functional>
#include <vector>

#include "gmp/ready_list.h"
#include "model/blocking.h"
#include "model/engine.h"
#include "poll/poll_core.h"
#include "sched/sched_api.h"

namespace weft::model {

// A modelled goroutine: what it does, and the proof that it ran once and saw what was written.
struct job : rt::G {
  rt::cell<int> payload;                     // written before it is queued, read when it runs
  rt::cell<int> frames;                      // its stack: two Ms at once would be seen
  std::vector<std::function<void()>> steps;  // all but the last one end in park() or yield()
  int step = 0;
  int ran = 0;           // it has come to its end
  bool endless = false;  // it computes for ever there, and its M never comes back

  void prepare();  // as its spawner
  void run(rt::M* mp);
};

// The goroutine that runs on the calling thread gives up its M; it goes on with its next step.
void park(rt::waiter* w, rt::commit_fn commit, void* arg);
void yield();

// What a goroutine does in its own code, where it can be frozen and robbed. In a step of a job.
void user_code(const std::function<void()>& body);
// Without ever calling the runtime, until that is so.
void compute(const bool& until);
// A signal that has been sent by now is taken.
void take_signal_if_due();

class runtime {
 public:
  static constexpr int kMs = kThreads, kPs = 4;

  runtime(world& w, int procs, int ms);
  // Goroutines exist that nobody counts otherwise: makes the deadlock check interested.
  void count_goroutines(int n);

  rt::M* m(int i) { return ms_[i]; }
  rt::P* p(int i) { return ps_[i]; }
  job* make_job(world& w, const char* name);

  // A signal has been sent to M m, and not taken yet.
  bool signalled(int m) const;
  // It is stopped in exit(), for good.
  bool held_in_exit(int m) const;
  // Goroutines can be asked, frozen and robbed (sched/preempt.cc, sched/retake.cc). A signal is taken before any
  // operation of its thread, or only while that computes.
  void have_signals(bool anywhere = true);

  // Set-up. Ps are idle until given to an M, Ms do not exist until one of these.
  void holds(int m, int p, bool spinning = false);  // M m runs with P p
  void idles(int m);                                // M m is on the idle list
  void queued(int m, job* j);                       // on the queue of the P of M m

  // Threads. One that only submits keeps its P: it computes for ever.
  void thread(world& w, const char* name, int m, std::function<void()> body);
  void serve(world& w, const char* name, int m);  // holds a P: looks for work
  // Holds a P, and ends with a goroutine that wants it. Then another thread takes its record over, with a P and that job.
  void leaver(world& w, const char* name, int m, bool& left);
  void next_thread(world& w, const char* name, int m, const bool& left, job* j);
  void dry(world& w, const char* name, int m);      // holds a P, has found nothing, may not spin
  void sleeper(world& w, const char* name, int m);  // idles: sleeps, then looks for work
  void watcher(world& w, const char* name, int m);  // idles, but is not asleep yet
  void dozer(world& w, const char* name, int m, std::int64_t until);  // idles, asleep until then
  void napper(world& w, const char* name, int m);  // spins with its P, and is about to doze
  void spares(world& w, int m);                    // m and following: for start_thread()

  // A goroutine that runs on m makes another one runnable. [SP-2]
  void submit(int m, job* j);

  // Everybody who remains is asleep: what the counters must say then.
  void check_quiet(int idle_ps);

 private:
  static void loop(rt::M* mp);

  rt::M* ms_[kMs] = {};
  rt::P* ps_[kPs] = {};
};

// The poller: whoever calls ready() is the kernel, with news for the reader of a descriptor.
struct kernel_poller {
  void ready(rt::poll_core<rt::waiter>* desc);
  void reset();
  rt::ready_list take();
  // Somebody has something to do in there.
  static bool is_due(const void* self);

  mutex lock;
  std::vector<rt::poll_core<rt::waiter>*> news;
  bool broken = false;
};
extern kernel_poller the_poller;

// The time, as long as a scenario does not change it.
extern std::int64_t now;
// What count_tasks() finds; unknown unless a scenario says.
extern std::function<int()> tasks;
// The one that is in exit(); negative: none.
extern int exiting_thread;
// exit() on the calling thread, as thread_exit.cc and freeze.cc have it, with signals for those who still run. How these agree
// with whom they stop has a model of its own: exit_freeze_model.cc. True: all came to rest by themselves. Requires: signals are
// taken only by those who compute.
bool exit_process();
// The one that may create no threads; negative: none.
extern int sysmon_thread;
// Whoever creates a thread waits until it is not; null: there is no such lock.
extern const bool* libc_is_locked;
extern bool libc_is_wanted;  // by one who creates a thread, or it was
extern int libc_wishes, libc_waiters;
void wait_for_libc();

}  // namespace weft::model

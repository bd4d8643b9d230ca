// The search itself: modelled threads as fibers, one execution after the other, depth first.
//
// An execution is determined by the answers to choose(): which thread goes on at a schedule point,
// which of several visible writes a load returns. The engine records the answers of one execution,
// changes the last one that still has an alternative, and runs again until none has. Everything
// else must be deterministic: models may not look at addresses, clocks or random numbers.
//
// A switch away from a thread that could go on is a preemption; options::preemptions bounds them.
// Switches at blocking operations and in cpu_pause() are free. Decisions are taken on the stack of
// the thread that reaches a schedule point, and most of them continue that very thread, so the
// common step costs no context switch.
//
// A failing execution is run once more with tracing on; report::trace is its readable schedule.
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/knowledge.h"

namespace weft::model {

struct options {
  int preemptions = 2;      // per execution; WEFT_MODEL_DEEPER=n in the environment adds n
  bool stale = true;        // loads may return old values; false = interleavings only
  int old_loads = 1 << 20;  // loads that do, per execution
  int rereads = 1;          // a load may return the same old value this many times again
  int spurious = 0;         // futex sleepers that may wake for no reason, per execution
  int timeouts = 1;         // timed sleeps that may end although somebody else could run
  bool try_locks = false;   // the scenario calls try_lock() of a ranked_lock
  int max_steps = 2000;     // more is reported as a livelock
};

int deeper();  // WEFT_MODEL_DEEPER

struct report {
  bool ok = true;
  std::string failure;  // why not
  std::string trace;    // the schedule that fails, one line a step
  std::uint64_t executions = 0;
  double ms = 0;
};

enum class wake_reason : std::uint8_t { ready, timeout, spurious };

struct slot_base;

// Who uses an atomic, over all executions of a scenario so far, by its address. Only where one
// thread writes and another one looks can the order of the two matter: operations on all other
// atomics are no schedule points. The first execution that finds an atomic to be contended starts
// the search again, so that none was explored on a wrong assumption.
struct usage {
  std::uint8_t users = 0, writers = 0;  // bit sets of threads
  bool contended = false;
};

// A read of a slot that a compare-exchange may yet confirm.
struct pending_read {
  slot_base* where;
  event when;
  std::uint32_t serial;  // of the write it saw
  bool published;        // that write happened before the read
};

struct modelled_thread {
  enum class run_state : std::uint8_t { ready, yielded, blocked, done };

  const char* name = "";
  std::function<void()> body;
  run_state state = run_state::done;
  bool (*is_ready)(const void*) = nullptr;  // of a blocked thread
  const void* waits_for = nullptr;
  const char* waits_in = "";
  bool timed = false, wakes_spuriously = false;
  bool service = false;        // may be asleep at the end
  std::uint8_t yields_to = 0;  // a yielded thread: who shall take a step before it does
  wake_reason reason = wake_reason::ready;

  knowledge cur;       // now
  knowledge unfenced;  // what an acquire fence would add
  knowledge released;  // as of the last release fence
  std::vector<pending_read> reads;
  struct reread {
    std::int16_t write, times;
  };
  std::array<reread, kLocations> rereads;  // per location: an old write, and how often again
  std::array<std::array<std::int16_t, 2>, kLocations> joined;  // relaxed, acquire: last write read

  std::unique_ptr<char[]> stack;
  std::jmp_buf context;
  bool started = false;
};

class world;

class engine {
 public:
  static engine& get() { return the_engine; }

  // Explores build() within the bounds; stops at the first failure.
  report explore(const std::function<void(world&)>& build, const options& bounds);

  // --- for modelled operations ---------------------------------------------------------------
  int current() const { return current_; }
  modelled_thread& me() { return threads_[static_cast<std::size_t>(current_)]; }
  bool in_thread() const { return current_ != kMain; }
  std::uint64_t execution() const { return execution_; }
  const options& bounds() const { return bounds_; }

  event tick() {  // a new event of the current thread
    auto& clock = me().cur.knows.at[static_cast<std::size_t>(current_)];
    return {current_, ++clock};
  }
  int choose(int total);
  void point();  // another thread may run here
  // As point(), before an operation on an atomic, if anybody can notice.
  void point(usage& u, bool writes);
  usage& usage_of(const void* atomic) { return usages_[atomic]; }
  // Called before every operation of a thread on an atomic: a signal may come in between. Set anew by each
  // scenario that has signals.
  void (*interrupt)() = nullptr;
  void yield();  // all others who can run take a step first: two who spin do not starve a third
  // Sleeps until is_ready(arg) or, if timed or spurious, for another reason.
  wake_reason block(bool (*is_ready)(const void*), const void* arg, const char* where,
                    bool timed = false, bool spurious = false);
  [[noreturn]] void fail(std::string why);
  void check(bool ok, const char* why) {
    if (!ok) fail(why);
  }

  int new_location();
  void* allocate(std::size_t bytes, std::size_t align);  // lives until the end of the execution
  void on_exit(void (*destroy)(void*), void* object) { objects_.push_back({destroy, object}); }

  view seq_cst, heavy, light;  // what fences of each kind have made visible
  view& bucket(int location);  // what the futex bucket's lock has made visible
  int old_loads = 0;           // loads that have returned an old write, this execution
  bool may_be_old() const {    // the next load may return an old write as well
    return in_thread() && bounds_.stale && old_loads < bounds_.old_loads;
  }
  int weak_failures = 0;  // compare_exchange_weak that failed for no reason, this execution

  bool tracing() const { return tracing_; }
  void trace(const std::string& line);
  void name(const void* object, std::string text);
  std::string name_of(const void* object) const;

 private:
  friend class world;
  static engine the_engine;

  struct choice {
    std::uint8_t taken, total;
  };
  struct candidate {
    int thread;
    wake_reason reason;
  };

  bool run_once(const std::function<void(world&)>& build);
  void begin_execution();
  void end_execution();
  bool next_path();
  int pick_next();
  int candidates(candidate* out, bool& last_goes_on);
  bool runnable(const modelled_thread& t) const;
  void resume(int next);  // from a thread or from main; returns when this one is chosen
  void reset_fibers();
  static void fiber_main();
  void fiber_loop();
  std::string describe_deadlock() const;

  options bounds_;
  std::vector<choice> path_;
  std::size_t position_ = 0;
  std::uint64_t execution_ = 0;
  int current_ = kMain, last_ = -1, thread_count_ = 0;
  int preemptions_ = 0, spurious_ = 0, timeouts_ = 0, steps_ = 0, locations_ = 0;
  bool failed_ = false, tracing_ = false, again_ = false;
  std::string failure_, trace_;
  std::array<modelled_thread, kThreads + 1> threads_;
  std::jmp_buf main_context_;
  std::function<void()> finally_;

  std::vector<std::unique_ptr<char[]>> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
  std::vector<std::pair<void (*)(void*), void*>> objects_;
  std::vector<std::pair<int, view>> buckets_;
  std::vector<std::pair<const void*, std::string>> names_;
  std::unordered_map<const void*, usage> usages_;
};

// One execution's cast, given to a scenario's build function.
class world {
 public:
  explicit world(engine& e) : engine_(e) {}

  // A fresh T for this execution; destroyed after it.
  template <class T, class... Args>
  T* make(Args&&... args) {
    T* object = new (engine_.allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    engine_.on_exit([](void* p) { static_cast<T*>(p)->~T(); }, object);
    return object;
  }
  // Threads start with everything that the build function did.
  void thread(const char* name, std::function<void()> body);
  // One that serves the others for ever: it may be asleep when the execution ends, and then its
  // time-outs do not strike for want of anybody else. It starts once starts(arg) is true.
  void service(const char* name, std::function<void()> body, bool (*starts)(const void*) = nullptr,
               const void* arg = nullptr);
  // Runs after all threads have ended, and sees everything.
  void finally(std::function<void()> check) { engine_.finally_ = std::move(check); }

 private:
  engine& engine_;
};

inline engine engine::the_engine;

// For models: fails the execution with a reason.
inline void check(bool ok, const char* why) { engine::get().check(ok, why); }
// What traces call an object: "g", 3 becomes g3.
inline void name(const void* object, const char* text, int number = -1) {
  if (!engine::get().tracing()) return;
  engine::get().name(object, number < 0 ? text : text + std::to_string(number));
}

}  // namespace weft::model

// run(): a goroutine whose caller waits.
//
// The caller's frame holds the result and the completion; the goroutine completes it as the last
// thing it does. A goroutine that calls goexit() never does, so that its caller waits until the
// deadlock check finds that nobody is left. [GX-3]
#include <stdexcept>

#include <weft/run.h>
#include <weft/runtime.h>

#include "base/fatal.h"
#include "gmp/completion.h"
#include "sched/locked.h"
#include "sched/max_procs.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/spawn.h"

namespace weft::rt {

namespace {

struct run_record {
  void (*fn)(void*);
  void* arg;
  completion<waiter> done;
};

// The deadlock check words its report by it. [DD-3]
struct notices_goexit {
  bool returned = false;
  ~notices_goexit() {
    if (!returned) {
      // order: relaxed; whoever finds no goroutine alive finds this, too, by way of sched.lock
      sched.runs_left.fetch_add(1, WEFT_ORDER(MS0, relaxed));
    }
  }
};

void run_body(void* memory) {
  run_record* record = *static_cast<run_record**>(memory);
  {
    notices_goexit body;
    record->fn(record->arg);
    body.returned = true;
  }
  if (waiter* w = record->done.complete()) {
    wake(w);
  }
}

bool enlist(waiter* w, void* record) { return static_cast<run_record*>(record)->done.enlist(w); }

void wait_for(run_record& record) {
  while (!record.done.done()) {
    waiter w;
    block(w, enlist, &record, record.done.address(), wait_reason::nested_run);
  }
}

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

void run_goroutine(void (*fn)(void*), void* arg, const run_options& options) {
  if (options.max_procs > 0) {
    rt::propose_procs(
        options.max_procs);  // so that it does not look for the limits of its container first
  }
  rt::ensure_started();
  const bool nested = rt::on_goroutine();
  if (nested && options.lock_main_thread) {
    throw std::logic_error("weft::run: lock_main_thread inside a goroutine");
  }
  if (options.max_procs > 0) {
    runtime::gomaxprocs(options.max_procs);
  }
  // order: relaxed, only the first one gets the number
  const bool first = rt::sched.main_started.exchange(1, WEFT_ORDER(MS0, relaxed)) == 0;
  rt::run_record record{fn, arg, {}};
  const spawn_slot slot = spawn_begin(sizeof(void*), alignof(void*));
  *static_cast<rt::run_record**>(slot.memory) = &record;
  const rt::main_start how{rt::run_body, __builtin_return_address(0), first ? 1u : 0u};
  if (options.lock_main_thread) {
    rt::run_on_this_thread(slot, how);
  } else if (nested || !rt::begin_on_this_thread(slot, how)) {
    rt::start_main(slot, how);
  }
  rt::wait_for(record);
}

}  // namespace weft::detail

// See at_exit.h.
#include "sched/at_exit.h"

#include <new>
#include <pthread.h>

#include "base/fatal.h"
#include "gmp/g.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

// What a plain thread keeps; a goroutine has the same in its G.
struct thread_record {
  exit_hook* hooks = nullptr;
  void* word = nullptr;
};

// X1: behind those that destroy values, unless it is one of them.
WEFT_NO_TSAN void insert(exit_hook*& hooks, exit_hook& hook) {
  exit_hook** at = &hooks;
  while (!hook.own_values && *at != nullptr && (*at)->own_values) {
    at = &(*at)->next;
  }
  hook.next = *at;
  *at = &hook;
}

void thread_ends(void* record);

pthread_key_t thread_key() {
  static const pthread_key_t key = [] {
    pthread_key_t k;
    WEFT_CHECK(pthread_key_create(&k, thread_ends) == 0, "no pthread key left");
    return k;
  }();
  return key;
}

thread_record& this_thread() {
  auto* record = static_cast<thread_record*>(pthread_getspecific(thread_key()));
  if (record == nullptr) {
    record = new thread_record;
    pthread_setspecific(thread_key(), record);
  }
  return *record;
}

// The key has lost its value already; a hook that registers another finds the record by it.
void thread_ends(void* p) {
  auto* record = static_cast<thread_record*>(p);
  pthread_setspecific(thread_key(), record);
  while (exit_hook* h = record->hooks) {
    record->hooks = h->next;
    h->run(h);
  }
  pthread_setspecific(thread_key(), nullptr);
  delete record;
}

// Not instrumented: the record is the goroutine's own, but it was another's before, and TSan has not
// been told of an order between the two.
WEFT_NO_TSAN void push(G* gp, exit_hook& hook) {
  insert(gp->exit_hooks, hook);
  gp->has_exit_hooks = true;
}
WEFT_NO_TSAN exit_hook* pop(G* gp) {
  exit_hook* h = gp->exit_hooks;
  if (h != nullptr) {
    gp->exit_hooks = h->next;
  }
  return h;
}
WEFT_NO_TSAN void finish_end(G* gp) { gp->has_exit_hooks = false; }

}  // namespace

void at_exit(exit_hook& hook) {
  if (G* gp = current_goroutine()) {
    push(gp, hook);
    return;
  }
  // Now: what a thread asks C++ to call at its end while it ends already, is never called, nor freed.
  watch_thread_exit();
  insert(this_thread().hooks, hook);
}

void run_exit_hooks(G* gp) {
  while (exit_hook* h = pop(gp)) {
    h->run(h);
  }
  finish_end(gp);
}

WEFT_NO_TSAN void* own_word() {
  const G* gp = current_goroutine();
  return gp != nullptr ? gp->own_word : this_thread().word;
}

WEFT_NO_TSAN void set_own_word(void* word) {
  G* gp = current_goroutine();
  (gp != nullptr ? gp->own_word : this_thread().word) = word;
}

}  // namespace weft::rt
